//! [`Service`]: a datagram service that has answered (SIDR).

use super::attempt::{self, Attempt};
use crate::cm::Cm;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::id::Id;
use nanocm_core::{ConnParam, Path, PeerParam, PortSpace, ServiceId};
use std::fmt;
use std::net::SocketAddr;

/// A datagram service (`RDMA_PS_UDP`) that has answered: where its datagrams go. There is no
/// connection; dropping it tells nobody anything.
pub struct Service {
    id: Id,
    peer: SocketAddr,
    peer_param: PeerParam,
    private_data: Vec<u8>,
}

impl Service {
    /// Asks for the service on a port, with no private data.
    ///
    /// # Errors
    /// [`Error`]: refused, no answer, the deadline passed.
    pub async fn resolve(cm: &Cm, peer: SocketAddr, deadline: Deadline) -> Result<Service, Error> {
        Service::resolve_with(cm, None, peer, &ConnParam::new(0), deadline).await
    }

    /// Asks for the service on a port. Of `param` the private data (180 octets at most) and the timing
    /// count; unless it says otherwise, the deadline is the attempt's.
    ///
    /// # Errors
    /// [`Error`]: refused, no answer, the deadline passed.
    pub async fn resolve_with(
        cm: &Cm,
        local: Option<SocketAddr>,
        peer: SocketAddr,
        param: &ConnParam<'_>,
        deadline: Deadline,
    ) -> Result<Service, Error> {
        let (id, inbox) = attempt::route(cm, PortSpace::Udp, local, peer, deadline).await?;
        let service = ServiceId::new(PortSpace::Udp, peer.port());
        let attempt = Attempt { id: &id, inbox: &inbox, peer, service, deadline };
        id.connect(&deadline.applied_to(param))?;
        let answer = attempt.until_established("resolve").await?;
        let peer_param = id.peer_param();
        Ok(Service { id, peer, peer_param, private_data: answer.private_data })
    }

    /// Its identifier: the local port, the attributes for a queue pair.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// The address that was asked.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The queue pair that serves it.
    pub fn qpn(&self) -> u32 {
        self.peer_param.qpn
    }

    /// The Q_Key that its queue pair expects.
    pub fn qkey(&self) -> u32 {
        self.peer_param.qkey
    }

    /// All of what it said of its queue pair.
    pub fn peer_param(&self) -> PeerParam {
        self.peer_param
    }

    /// The way to it: what goes into an address handle.
    pub fn path(&self) -> Option<Path> {
        self.id.path()
    }

    /// What its application says: the whole field, 136 octets.
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("peer", &self.peer)
            .field("qpn", &self.qpn())
            .field("qkey", &self.qkey())
            .finish_non_exhaustive()
    }
}
