//! The acceptance filter: what becomes of a REQ or SIDR_REQ, before anybody is told.
//!
//! Read first: facts linux-rdma-cm §1.7 (Linux's filter), §3.4; docs/deviations.md.

use crate::addr::{Path, ScopedIp, ServiceId};
use crate::cm::Cm;
use crate::conn::{Known, PeerHashes, Reply, Transport, Verdict};
use crate::stats::{Disposition, IgnoreReason, bump};
use crate::wire::{
    IpCmError, IpCmHeader, Mad, MessageKind, RejectReason, Req, SidrReq, SidrStatus,
};

impl Cm<'_> {
    /// A REQ: a repetition, a sign that its peer has started anew, or a request to a listener.
    pub(crate) fn on_req(&mut self, path: &Path, req: &Req<&Mad>) -> Verdict {
        match self.conns.classify(path, req) {
            Known::Duplicate(conn) => self.conns.on_duplicate_req(conn),
            Known::Stale(conn) => {
                let outcome = self.conns.tear_down_stale(conn);
                let disposition = self.refuse(path, req, RejectReason::STALE).disposition;
                Verdict { disposition, outcome }
            }
            Known::Spoofed => {
                bump(&mut self.conns.counters.stale_spoofed);
                self.refuse(path, req, RejectReason::STALE)
            }
            Known::New(hashes) => self.admit(path, req, hashes),
        }
    }

    /// The acceptance filter (facts: linux-rdma-cm §1.7), in Linux's order; only that a port that is
    /// bound and not listened on is refused last.
    fn admit(&mut self, path: &Path, req: &Req<&Mad>, hashes: PeerHashes) -> Verdict {
        let service: ServiceId = req.service_id();
        if !self.ids.may_be_listened_on(service) {
            bump(&mut self.conns.counters.no_listener);
            return self.refuse(path, req, RejectReason::INVALID_SERVICE_ID);
        }
        let transport =
            Transport::from_codes(req.transport_service_type(), req.extended_transport_type());
        let Some(transport) = transport.filter(|_| service.makes_connections()) else {
            return self.refuse_transport(path, req);
        };
        let local = ScopedIp::new(req.primary_remote_gid(), path.scope());
        let Some(gid_index) = self.gids.find(local).filter(|_| self.may_answer_to(path, req))
        else {
            bump(&mut self.conns.counters.bad_primary_path);
            let reply = self.rejection(path, req, RejectReason::INVALID_PRIMARY_GID);
            self.conns.reply(reply.with_gid(self.gids.hint(path.local_ip())));
            return Disposition::Accepted.into();
        };
        let Some(header) = self.ip_cm_header(path, req.ip_cm()) else {
            bump(&mut self.conns.counters.bad_ip_cm_header);
            return self.refuse(path, req, RejectReason::CONSUMER);
        };
        let destination = ScopedIp::new(header.destination, path.scope());
        let Some(listener) = self.ids.find_listener(service, destination) else {
            bump(&mut self.conns.counters.no_listener);
            return self.refuse(path, req, RejectReason::INVALID_SERVICE_ID);
        };
        if !self.ids.takes_transport(listener, transport) {
            return self.refuse_transport(path, req);
        }
        if !(1..=self.conns.config.max_path_mtu).contains(&req.path_mtu()) {
            bump(&mut self.conns.counters.bad_path_mtu);
            let reply = self.rejection(path, req, RejectReason::INVALID_PATH_MTU);
            self.conns.reply(reply.with_mtu(self.conns.config.max_path_mtu));
            return Disposition::Accepted.into();
        }
        if !self.ids.has_room(listener) {
            if self.ids.rejects_when_full(listener) {
                bump(&mut self.conns.counters.backlog_full);
                return self.refuse(path, req, RejectReason::NO_RESOURCES);
            }
            return self.conns.counters.ignore(IgnoreReason::BacklogFull).into();
        }
        if self.conns.is_crowded(req.primary_local_gid()) {
            return self.conns.counters.ignore(IgnoreReason::HalfOpen).into();
        }
        let Some((id, conn)) = self.claim_for(listener) else {
            bump(&mut self.conns.counters.no_resources);
            return self.refuse(path, req, RejectReason::NO_RESOURCES);
        };
        self.conns.admit(conn, path, req, transport, gid_index, hashes);
        self.ids.request(id, listener, conn, &header, path.scope());
        Disposition::Accepted.into()
    }

    /// The IP CM header, if it is of our version and speaks of us and of somebody: on RoCE of those
    /// whom the packet itself names.
    fn ip_cm_header(
        &self,
        path: &Path,
        header: Result<IpCmHeader, IpCmError>,
    ) -> Option<IpCmHeader> {
        let header = header.ok()?;
        let fits = match path {
            Path::Roce(_) if !self.conns.config.lenient => {
                (header.destination, header.source) == (path.local_gid(), path.remote_gid())
            }
            _ => true,
        };
        let destination = ScopedIp::new(header.destination, path.scope());
        let from_nobody = header.source.is_wildcard() || header.source.is_multicast();
        (fits && self.gids.find(destination).is_some() && !from_nobody).then_some(header)
    }

    /// A SIDR_REQ: a repetition, or a request to a listener of a datagram port space.
    pub(crate) fn on_sidr_req(&mut self, path: &Path, req: &SidrReq<&Mad>) -> Verdict {
        match self.conns.find_sidr(path, req) {
            Some(conn) => self.conns.on_duplicate_sidr_req(conn),
            None => self.admit_sidr(path, req),
        }
    }

    /// As for a REQ, with the few words that SIDR has (facts: wire-formats §2.9). The answer goes
    /// where the packet came from, so there is no path to be checked.
    fn admit_sidr(&mut self, path: &Path, req: &SidrReq<&Mad>) -> Verdict {
        let service = req.service_id();
        if !self.ids.may_be_listened_on(service) {
            bump(&mut self.conns.counters.no_listener);
            return self.refuse_sidr(path, req, SidrStatus::UNSUPPORTED_SERVICE_ID);
        }
        if !service.serves_datagrams() {
            bump(&mut self.conns.counters.bad_transport);
            return self.refuse_sidr(path, req, SidrStatus::REJECTED);
        }
        let header = self.ip_cm_header(path, req.ip_cm());
        let (Some(header), Some(gid_index)) = (header, self.gids.find(path.local_ip())) else {
            bump(&mut self.conns.counters.bad_ip_cm_header);
            return self.refuse_sidr(path, req, SidrStatus::REJECTED);
        };
        let destination = ScopedIp::new(header.destination, path.scope());
        let Some(listener) = self.ids.find_listener(service, destination) else {
            bump(&mut self.conns.counters.no_listener);
            return self.refuse_sidr(path, req, SidrStatus::UNSUPPORTED_SERVICE_ID);
        };
        if !self.ids.has_room(listener) {
            if self.ids.rejects_when_full(listener) {
                bump(&mut self.conns.counters.backlog_full);
                return self.refuse_sidr(path, req, SidrStatus::NO_QP);
            }
            return self.conns.counters.ignore(IgnoreReason::BacklogFull).into();
        }
        if self.conns.is_crowded(path.remote_gid()) {
            return self.conns.counters.ignore(IgnoreReason::HalfOpen).into();
        }
        let Some((id, conn)) = self.claim_for(listener) else {
            bump(&mut self.conns.counters.no_resources);
            return self.refuse_sidr(path, req, SidrStatus::NO_QP);
        };
        self.conns.admit_sidr(conn, path, req, gid_index);
        self.ids.request(id, listener, conn, &header, path.scope());
        Disposition::Accepted.into()
    }

    /// An identifier and a connection for a request; neither, if one is wanting.
    fn claim_for(&mut self, listener: usize) -> Option<(usize, usize)> {
        let id = self.ids.admit(listener)?;
        match self.conns.claim(id) {
            Some(conn) => Some((id, conn)),
            None => {
                self.let_go(id);
                None
            }
        }
    }

    /// A third party must not be made the target of our answers, nor a listener be reached through
    /// another address than its own: where the packet names sender and receiver, the REQ's path leads
    /// from one to the other. On InfiniBand it need not name them.
    fn may_answer_to(&self, path: &Path, req: &Req<&Mad>) -> bool {
        let from_sender = path.remote_gid() == req.primary_local_gid();
        self.conns.config.lenient
            || match path {
                Path::Roce(_) => from_sender && path.local_gid() == req.primary_remote_gid(),
                Path::Ib(arrived) => from_sender || !arrived.grh,
            }
    }

    fn refuse(&mut self, path: &Path, req: &Req<&Mad>, reason: RejectReason) -> Verdict {
        let reply = self.rejection(path, req, reason);
        self.conns.reply(reply);
        Disposition::Accepted.into()
    }

    fn refuse_transport(&mut self, path: &Path, req: &Req<&Mad>) -> Verdict {
        bump(&mut self.conns.counters.bad_transport);
        self.refuse(path, req, RejectReason::INVALID_TRANSPORT_TYPE)
    }

    fn refuse_sidr(&mut self, path: &Path, req: &SidrReq<&Mad>, status: SidrStatus) -> Verdict {
        self.conns.reply(Reply::sidr_rep(path, req, status));
        Disposition::Accepted.into()
    }

    fn rejection(&self, path: &Path, req: &Req<&Mad>, reason: RejectReason) -> Reply {
        Reply::reject(path, req.transaction_id(), MessageKind::REQ, reason)
            .between(0, req.local_comm_id())
    }
}
