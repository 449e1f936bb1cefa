//! Endpoints for tests: a provider with an open address, and what it has heard.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nanocm::provider::{FailureCause, Fault, MadTransport, Outgoing, Raw, Received, Udp};
use nanocm_core::wire::Mad;
use nanocm_core::wire::icrc::Integrity;
use nanocm_core::{Gid, Path, RocePath, SendToken};

pub(crate) struct Endpoint {
    pub(crate) transport: Box<dyn MadTransport>,
    pub(crate) mads: Vec<(RocePath, Mad, Integrity)>,
    pub(crate) faults: Vec<(RocePath, Fault)>,
    pub(crate) failures: Vec<Failure>,
}

/// A `SendFailure` with its own memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    pub(crate) remote: IpAddr,
    pub(crate) token: Option<SendToken>,
    pub(crate) mad: Vec<u8>,
    pub(crate) errno: i32,
    pub(crate) cause: FailureCause,
    pub(crate) sentence: String,
}

/// Both socket providers, by name.
pub(crate) const KINDS: [&str; 2] = ["udp", "raw"];

/// Pairs of local addresses, one of each family.
pub(crate) const PAIRS: [(&str, &str); 3] =
    [("127.0.0.1", "127.0.0.2"), ("::1", "fd00::1"), ("fd00::1", "fd00::2")];

impl Endpoint {
    pub(crate) fn new(kind: &str) -> Endpoint {
        let transport: Box<dyn MadTransport> = match kind {
            "udp" => Box::new(Udp::new((0, 0)).unwrap()),
            "raw" => Box::new(Raw::new((0, 0)).unwrap()),
            _ => unreachable!(),
        };
        Endpoint::with(transport)
    }

    pub(crate) fn with(transport: Box<dyn MadTransport>) -> Endpoint {
        Endpoint { transport, mads: vec![], faults: vec![], failures: vec![] }
    }

    pub(crate) fn open(kind: &str, address: &str) -> Endpoint {
        let mut endpoint = Endpoint::new(kind);
        endpoint.transport.open(ip(address), 0).unwrap();
        endpoint
    }

    /// Sends; keeps what fails.
    pub(crate) fn send(&mut self, batch: &[Outgoing]) -> usize {
        let failures = &mut self.failures;
        self.transport.send(batch, &mut |failure| failures.push(Failure::from(failure))).unwrap()
    }

    /// Takes in what is there now.
    pub(crate) fn drain(&mut self) {
        loop {
            let Endpoint { transport, mads, faults, failures } = self;
            let count = transport.recv(&mut |received| match received {
                Received::Mad { path, mad, integrity } => {
                    mads.push((roce(&path), *mad, integrity));
                }
                Received::Fault { path, fault } => faults.push((roce(&path), fault)),
                Received::SendFailed(failure) => failures.push(Failure::from(failure)),
            });
            if count.unwrap() == 0 {
                return;
            }
        }
    }

    /// Waits for the descriptor and takes in what comes, until `enough`; gives up after ten seconds.
    pub(crate) fn until(&mut self, enough: impl Fn(&Endpoint) -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        while !enough(self) {
            let left = end.saturating_duration_since(Instant::now());
            let came = !left.is_zero() && readable(&self.transport.fd(), left);
            let heard = (self.mads.len(), &self.faults, &self.failures);
            assert!(came, "nothing comes but {heard:?}, {:?}", self.transport.counters());
            self.drain();
            self.transport.ports(&mut |_| {}).unwrap();
        }
    }

    /// Whether there is something to take in.
    pub(crate) fn is_readable(&self) -> bool {
        readable(&self.transport.fd(), Duration::ZERO)
    }
}

impl From<nanocm::provider::SendFailure<'_>> for Failure {
    fn from(failure: nanocm::provider::SendFailure<'_>) -> Failure {
        Failure {
            remote: failure.path.remote_gid().to_ip(),
            token: failure.token,
            mad: failure.mad.to_vec(),
            errno: failure.errno,
            cause: failure.cause,
            sentence: failure.to_string(),
        }
    }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn path(local: &str, remote: &str) -> RocePath {
    RocePath::new(Gid::from_ip(ip(local)), Gid::from_ip(ip(remote)))
}

/// A MAD with this number in its communication ID; the token is its own.
pub(crate) fn outgoing(path: RocePath, number: u32) -> Outgoing {
    let mad = mad(number);
    Outgoing { path: Path::Roce(path), token: SendToken::of(&mad), mad }
}

pub(crate) fn mad(number: u32) -> Mad {
    let mut mad = [0; 256];
    mad[..4].copy_from_slice(&[1, 7, 2, 3]);
    mad[17] = 0x10;
    mad[24..28].copy_from_slice(&number.to_be_bytes());
    mad[255] = number as u8;
    mad
}

fn roce(path: &Path) -> RocePath {
    match path {
        Path::Roce(path) => *path,
        _ => panic!("{path:?}"),
    }
}

fn readable(fd: &impl AsFd, wait: Duration) -> bool {
    let mut entry = libc::pollfd { fd: fd.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which outlives the call.
    let count = unsafe { libc::poll(&raw mut entry, 1, wait.as_millis() as libc::c_int) };
    count == 1 && entry.revents & libc::POLLIN != 0
}
