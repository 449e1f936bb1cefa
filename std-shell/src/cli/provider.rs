//! `--provider`: which way CM messages travel, and a connection manager over it.

use super::args::Address;
use super::output::{Failure, Stop, errno, errno_of, words};
use nanocm::provider::{MadTransport, Raw, Udp};
use nanocm::{Capacity, Cm, Config, Drive, random_seed};
use std::net::SocketAddr;
use std::str::FromStr;

/// A provider's name on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    /// RoCEv2 over plain UDP sockets.
    Udp,
    /// RoCEv2 over raw sockets: sees IP headers, needs CAP_NET_RAW.
    Raw,
    /// A real InfiniBand port or Soft-RoCE's, through libibumad.
    Umad(String),
    /// The kernel's own rdma_cm.
    Kernel,
}

impl FromStr for Provider {
    type Err = String;

    fn from_str(text: &str) -> Result<Provider, String> {
        match text {
            "udp" => Ok(Provider::Udp),
            "raw" => Ok(Provider::Raw),
            "kernel" => Ok(Provider::Kernel),
            _ => match text.strip_prefix("umad:") {
                Some(port) if port.contains('/') => Ok(Provider::Umad(port.to_owned())),
                _ => Err("expected udp, raw, umad:CA/PORT or kernel".to_owned()),
            },
        }
    }
}

impl Provider {
    /// The transport. No socket is opened yet.
    pub(crate) fn transport(&self) -> Result<Box<dyn MadTransport>, Stop> {
        let failed = |error: std::io::Error| {
            let message = format!("the provider cannot start: {}", words(&error));
            Failure::new(errno_of(&error), "host", message)
        };
        match self {
            Provider::Udp => Ok(Box::new(Udp::new((0, 0)).map_err(failed)?)),
            Provider::Raw => Ok(Box::new(Raw::new((0, 0)).map_err(failed)?)),
            Provider::Umad(port) => Err(not_built(format!("umad:{port}"))),
            Provider::Kernel => Err(not_built("kernel".to_owned())),
        }
    }

    /// A connection manager that the caller drives, with room for `connections`.
    pub(crate) fn cm(&self, connections: usize) -> Result<Cm, Stop> {
        self.cm_with(connections, |_| {})
    }

    /// The same, with a configuration of one's own.
    pub(crate) fn cm_with(
        &self,
        connections: usize,
        set: impl FnOnce(&mut Config),
    ) -> Result<Cm, Stop> {
        let mut config = Config::new(random_seed()?);
        set(&mut config);
        let mut capacity = Capacity::of(connections);
        capacity.replies = 256;
        Ok(Cm::over(self.transport()?, config, capacity, Drive::Caller)?)
    }
}

fn not_built(name: String) -> Stop {
    let mut failure = Failure::new(
        errno::EOPNOTSUPP,
        "provider",
        format!("the provider {name} is not part of this version"),
    );
    failure.advice = Some("use `--provider udp` or `--provider raw`".to_owned());
    failure.into()
}

/// The socket address of an end point; the providers of this version know no others.
pub(crate) fn ip(address: Address) -> Result<SocketAddr, Stop> {
    match address {
        Address::Ip(address) => Ok(address),
        Address::Gid(..) => Err(Failure::new(
            errno::EOPNOTSUPP,
            "provider",
            format!(
                "{address}: GID addresses need an InfiniBand provider, which this version lacks"
            ),
        )
        .into()),
    }
}
