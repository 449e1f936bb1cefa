//! One engine and peers whose messages are made by hand: for what two engines would never say to
//! each other.

use super::Watch;
use crate::addr::{Gid, Path, PortSpace, RocePath, ScopedIp, ServiceId};
use crate::event::{Event, EventKind};
use crate::gids::PortEvent;
use crate::request::Route;
use crate::time::Instant;
use crate::wire::{
    Drep, Dreq, IpCmHeader, Mad, MessageKind, Mra, Rej, RejectReason, Rep, Req, Rtu, SidrRep,
    SidrReq, SidrStatus, View,
};
use crate::{Cm, ConnParam, ConnState, Disposition, Id, State};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

/// What a peer says of itself, and the messages it makes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Where it is.
    pub ip: IpAddr,
    /// Its communication ID.
    pub comm_id: u32,
    /// Its CA GUID.
    pub guid: u64,
    /// Its queue pair.
    pub qpn: u32,
    /// The number of its exchange.
    pub tid: u64,
}

impl Peer {
    fn header(&self, to: IpAddr) -> IpCmHeader {
        IpCmHeader { source_port: 38784, source: self.ip.into(), destination: to.into() }
    }

    /// A REQ to the service of this port on `to`, as from Linux.
    pub fn req(&self, to: IpAddr, port: u16) -> Mad {
        let mut mad = [0; 256];
        let mut req = Req::emit(&mut mad, self.tid);
        req.set_local_comm_id(self.comm_id)
            .set_service_id(ServiceId::new(PortSpace::Tcp, port))
            .set_local_ca_guid(self.guid)
            .set_local_qpn(self.qpn)
            .set_responder_resources(4)
            .set_initiator_depth(2)
            .set_remote_cm_response_timeout(20)
            .set_starting_psn(0x123456)
            .set_local_cm_response_timeout(20)
            .set_retry_count(6)
            .set_partition_key(0xffff)
            .set_path_mtu(3)
            .set_rnr_retry_count(5)
            .set_max_cm_retries(15)
            .set_primary_local_lid(0xffff)
            .set_primary_remote_lid(0xffff)
            .set_primary_local_gid(self.ip.into())
            .set_primary_remote_gid(to.into())
            .set_primary_flow_label(0x27486)
            .set_primary_hop_limit(64)
            .set_primary_local_ack_timeout(17)
            .set_ip_cm(&self.header(to));
        mad
    }

    /// A REP to this communication ID.
    pub fn rep(&self, to: u32) -> Mad {
        let mut mad = [0; 256];
        Rep::emit(&mut mad, self.tid)
            .set_local_comm_id(self.comm_id)
            .set_remote_comm_id(to)
            .set_local_qpn(self.qpn)
            .set_starting_psn(0x654321)
            .set_responder_resources(1)
            .set_initiator_depth(1)
            .set_target_ack_delay(15)
            .set_rnr_retry_count(7)
            .set_local_ca_guid(self.guid);
        mad
    }

    /// An RTU.
    pub fn rtu(&self, to: u32) -> Mad {
        let mut mad = [0; 256];
        Rtu::emit(&mut mad, self.tid).set_local_comm_id(self.comm_id).set_remote_comm_id(to);
        mad
    }

    /// A DREQ for this queue pair of the receiver.
    pub fn dreq(&self, to: u32, qpn: u32) -> Mad {
        let mut mad = [0; 256];
        Dreq::emit(&mut mad, self.tid)
            .set_local_comm_id(self.comm_id)
            .set_remote_comm_id(to)
            .set_remote_qpn(qpn);
        mad
    }

    /// A DREP.
    pub fn drep(&self, to: u32) -> Mad {
        let mut mad = [0; 256];
        Drep::emit(&mut mad, self.tid).set_local_comm_id(self.comm_id).set_remote_comm_id(to);
        mad
    }

    /// An MRA.
    pub fn mra(&self, to: u32, of: MessageKind, service_timeout: u8) -> Mad {
        let mut mad = [0; 256];
        Mra::emit(&mut mad, self.tid)
            .set_local_comm_id(self.comm_id)
            .set_remote_comm_id(to)
            .set_message_mraed(of)
            .set_service_timeout(service_timeout);
        mad
    }

    /// A REJ.
    pub fn rej(&self, to: u32, of: MessageKind, reason: RejectReason) -> Mad {
        let mut mad = [0; 256];
        Rej::emit(&mut mad, self.tid)
            .set_local_comm_id(self.comm_id)
            .set_remote_comm_id(to)
            .set_message_rejected(of)
            .set_reason(reason);
        mad
    }

    /// A SIDR_REQ for the datagram service of this port on `to`, as from Linux.
    pub fn sidr_req(&self, to: IpAddr, port: u16) -> Mad {
        let mut mad = [0; 256];
        SidrReq::emit(&mut mad, self.tid)
            .set_request_id(self.comm_id)
            .set_partition_key(0xffff)
            .set_service_id(ServiceId::new(PortSpace::Udp, port))
            .set_ip_cm(&self.header(to));
        mad
    }

    /// A SIDR_REP to the request of this number.
    pub fn sidr_rep(&self, to: u32, status: SidrStatus) -> Mad {
        let mut mad = [0; 256];
        let mut rep = SidrRep::emit(&mut mad, self.tid);
        rep.set_request_id(to)
            .set_status(status)
            .set_service_id(ServiceId::new(PortSpace::Udp, 7471));
        if status == SidrStatus::VALID {
            rep.set_qpn(self.qpn).set_qkey(0x0123_4567);
        }
        mad
    }

    /// A REJ 4, which names no communication ID of ours but the peer's CA GUID.
    pub fn timeout_rej(&self) -> Mad {
        let mut mad = self.rej(0, MessageKind::OTHER, RejectReason::TIMEOUT);
        Rej(&mut mad).set_additional_info(&self.guid.to_be_bytes());
        mad
    }
}

/// An engine by itself, watched.
pub struct Solo<'s> {
    /// The engine.
    pub cm: Watch<'s>,
    /// The time.
    pub now: Instant,
    /// Its address.
    pub ip: IpAddr,
    /// Where peers are, unless they say otherwise.
    pub peer_ip: IpAddr,
    peers: u32,
    qpns: u32,
}

impl<'s> Solo<'s> {
    /// The engine's CA GUID.
    pub const CA_GUID: u64 = 0x0200_00b0;

    /// An engine at the second of two addresses, with peers at the first.
    pub fn new(cm: Cm<'s>, ips: [IpAddr; 2], now: Instant) -> Solo<'s> {
        let mut cm = Watch::new(cm);
        let address = ScopedIp::new(Gid::from_ip(ips[1]), 0);
        let event = PortEvent::GidAdded { address, ca_guid: Solo::CA_GUID };
        assert!(cm.handle_port_event(now, event));
        Solo { cm, now, ip: ips[1], peer_ip: ips[0], peers: 0, qpns: 0x10 }
    }

    /// A peer that nobody has heard of.
    pub fn peer(&mut self) -> Peer {
        self.peers += 1;
        let n = self.peers;
        Peer {
            ip: self.peer_ip,
            comm_id: 0xc0de_0000 + n,
            guid: 0x5054_00ff_fe00_0000 + u64::from(n),
            qpn: 0x100 + n,
            tid: 0x2_0000_0000 + u64::from(n),
        }
    }

    /// Whoever is where peers are.
    pub fn peer_at_home(&self) -> Peer {
        Peer { ip: self.peer_ip, comm_id: 1, guid: 1, qpn: 1, tid: 1 }
    }

    /// A queue pair number nobody had before.
    pub fn qpn(&mut self) -> u32 {
        self.qpns += 1;
        self.qpns
    }

    /// The path from a peer.
    pub fn path(&self, peer: &Peer) -> Path {
        Path::Roce(RocePath::new(self.ip.into(), peer.ip.into()))
    }

    /// The engine is handed a message of this peer.
    pub fn hears(&mut self, peer: &Peer, mad: &[u8]) -> Disposition {
        let path = self.path(peer);
        self.cm.handle_datagram(self.now, &path, mad)
    }

    /// All it has to send now, which must be these messages.
    #[track_caller]
    pub fn says(&mut self, names: &[&str]) -> Vec<Mad> {
        let mut sent = Vec::new();
        let mut mad = [0; 256];
        while self.cm.poll_transmit(self.now, &mut mad).is_some() {
            sent.push(mad);
        }
        let said: Vec<_> = sent.iter().map(name).collect();
        assert_eq!(said, names);
        sent
    }

    /// All it has to tell now, which must be these events.
    #[track_caller]
    pub fn tells(&mut self, names: &[&str]) -> Vec<Event> {
        let events: Vec<_> = std::iter::from_fn(|| self.cm.poll_event()).collect();
        let told: Vec<_> = events.iter().map(|event| event.kind.name()).collect();
        assert_eq!(told, names);
        events
    }

    /// Its device is gone, and everybody concerned has been told.
    pub fn remove_device(&mut self) {
        let event = PortEvent::DeviceRemoved { ca_guid: Solo::CA_GUID };
        assert!(self.cm.handle_port_event(self.now, event));
        while self.cm.handle_timeout(self.now, 1) {}
    }

    /// Lets time pass, deadline by deadline.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.cm.poll_at().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            while self.cm.handle_timeout(self.now, 1) {}
        }
        self.now = end;
        while self.cm.handle_timeout(self.now, 1) {}
    }

    /// A listener.
    pub fn listen(&mut self, port: u16, backlog: u32) -> Id {
        self.listen_in(PortSpace::Tcp, port, backlog)
    }

    /// A listener of this port space.
    pub fn listen_in(&mut self, space: PortSpace, port: u16, backlog: u32) -> Id {
        let id = self.cm.create_id(space, 0).unwrap();
        self.cm.bind(id, SocketAddr::new(self.ip, port)).unwrap();
        self.cm.listen(id, backlog).unwrap();
        id
    }

    /// An identifier with a route to a peer.
    pub fn route_to(&mut self, peer: &Peer) -> Id {
        self.route_in(PortSpace::Tcp, peer)
    }

    /// An identifier of this port space with a route to a peer.
    pub fn route_in(&mut self, space: PortSpace, peer: &Peer) -> Id {
        let id = self.cm.create_id(space, 0).unwrap();
        let route = Route::new(self.path(peer));
        self.cm.set_route(self.now, id, SocketAddr::new(peer.ip, 7471), &route).unwrap();
        id
    }

    /// Sends a REQ over an identifier with a route.
    pub fn connect(&mut self, id: Id) {
        let qpn = self.qpn();
        self.cm.connect(self.now, id, &ConnParam::new(qpn)).unwrap();
    }

    /// Accepts a request.
    pub fn accept(&mut self, id: Id) {
        let qpn = self.qpn();
        self.cm.accept(self.now, id, &ConnParam::new(qpn)).unwrap();
    }

    /// A new connection with a new peer, brought into this state by messages and calls; nothing is
    /// owed or untold. The active side, where both have the state and `active` says so; the passive
    /// one has a listener on port 7471, for datagrams in SIDR's states.
    pub fn bring(&mut self, state: ConnState, active: bool) -> Brought {
        use ConnState::*;
        let mut it = Brought { peer: self.peer(), id: Id::from_raw(0), comm_id: 0, qpn: 0 };
        match state {
            ReqSent | RepRcvd => self.bring_active(&mut it, state),
            ReqRcvd | RepSent | RejSent => self.bring_passive(&mut it, state),
            SidrReqSent | SidrResolved => {
                it.id = self.route_in(PortSpace::Udp, &it.peer);
                self.connect(it.id);
                it.comm_id = comm_id(&self.says(&["SIDR_REQ"])[0]);
                if state == SidrResolved {
                    let rep = it.peer.sidr_rep(it.comm_id, SidrStatus::VALID);
                    self.expect_accepted(&it, &rep, &[], &["ESTABLISHED"]);
                }
            }
            SidrReqRcvd | SidrRepSent => {
                let req = it.peer.sidr_req(self.ip, 7471);
                assert_eq!(self.hears(&it.peer, &req), Disposition::Accepted);
                it.id = self.tells(&["CONNECT_REQUEST"])[0].id;
                if state == SidrRepSent {
                    self.accept(it.id);
                    self.says(&["SIDR_REP"]);
                }
            }
            Idle if active => {
                self.bring_active(&mut it, ReqSent);
                let rej = it.peer.rej(it.comm_id, MessageKind::REQ, RejectReason::CONSUMER);
                self.expect_accepted(&it, &rej, &[], &["REJECTED"]);
            }
            Idle => {
                self.bring_passive(&mut it, ReqRcvd);
                self.expect_accepted(&it, &it.peer.timeout_rej(), &[], &["REJECTED"]);
            }
            Established if active => {
                self.bring_active(&mut it, RepRcvd);
                self.cm.establish(self.now, it.id, &[]).unwrap();
                self.says(&["RTU"]);
                self.tells(&["ESTABLISHED"]);
            }
            Established => {
                self.bring_passive(&mut it, RepSent);
                self.expect_accepted(&it, &it.peer.rtu(it.comm_id), &[], &["ESTABLISHED"]);
            }
            DreqSent => {
                it = self.bring(Established, active);
                self.cm.disconnect(self.now, it.id, &[]).unwrap();
                self.says(&["DREQ"]);
            }
            DreqRcvd => {
                it = self.bring(Established, active);
                let dreq = it.peer.dreq(it.comm_id, it.qpn);
                self.expect_accepted(&it, &dreq, &[], &["DISCONNECTED"]);
            }
            Timewait => {
                it = self.bring(DreqSent, active);
                self.expect_accepted(&it, &it.peer.drep(it.comm_id), &[], &["DISCONNECTED"]);
            }
        }
        assert_eq!(self.cm.conn_state(it.id), Ok(state));
        it
    }

    fn bring_active(&mut self, it: &mut Brought, state: ConnState) {
        it.id = self.route_to(&it.peer);
        self.connect(it.id);
        it.qpn = self.qpns;
        it.comm_id = comm_id(&self.says(&["REQ"])[0]);
        if state == ConnState::RepRcvd {
            self.expect_accepted(it, &it.peer.rep(it.comm_id), &[], &["CONNECT_RESPONSE"]);
        }
    }

    fn bring_passive(&mut self, it: &mut Brought, state: ConnState) {
        let req = it.peer.req(self.ip, 7471);
        assert_eq!(self.hears(&it.peer, &req), Disposition::Accepted);
        it.id = self.tells(&["CONNECT_REQUEST"])[0].id;
        match state {
            ConnState::RepSent => {
                self.accept(it.id);
                it.qpn = self.qpns;
                it.comm_id = comm_id(&self.says(&["REP"])[0]);
            }
            ConnState::RejSent => {
                self.cm.reject(self.now, it.id, RejectReason::CONSUMER, &[]).unwrap();
                self.says(&["REJ"]);
            }
            _ => {}
        }
    }

    fn expect_accepted(&mut self, it: &Brought, mad: &Mad, says: &[&str], tells: &[&str]) {
        assert_eq!(self.hears(&it.peer, mad), Disposition::Accepted);
        self.says(says);
        self.tells(tells);
    }

    /// Destroys all, lets the goodbyes be said, and sees that nothing is left.
    #[track_caller]
    pub fn assert_clean(mut self, ids: &[Id]) {
        for &id in ids {
            self.cm.destroy(self.now, id).expect("the test's own identifier");
        }
        let mut mad = [0; 256];
        while self.cm.poll_event().is_some() {}
        while self.cm.poll_transmit(self.now, &mut mad).is_some() {}
        self.wait(Duration::from_secs(300));
        while self.cm.poll_transmit(self.now, &mut mad).is_some() {}
        assert!(self.cm.is_clean(), "{:?} in use", self.cm.in_use());
    }
}

/// A connection that was brought into a state.
#[derive(Clone, Copy, Debug)]
pub struct Brought {
    /// The other side.
    pub peer: Peer,
    /// The identifier.
    pub id: Id,
    /// Its communication ID, 0 if the peer does not know it.
    pub comm_id: u32,
    /// Our queue pair.
    pub qpn: u32,
}

impl Brought {
    /// What the engine says of it.
    pub fn states(&self, cm: &Cm<'_>) -> (State, ConnState) {
        (cm.state(self.id).unwrap(), cm.conn_state(self.id).unwrap())
    }
}

/// The sender's communication ID, in every message but a SIDR_REP and a REJ; a SIDR_REQ's number.
pub fn comm_id(mad: &Mad) -> u32 {
    u32::from_be_bytes([mad[24], mad[25], mad[26], mad[27]])
}

/// A message's name.
pub fn name(mad: &Mad) -> &'static str {
    View::new(mad).attribute().name().unwrap_or("?")
}

/// Which events end an attempt or a connection for the application.
pub fn is_terminal(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::Rejected(_)
            | EventKind::SidrRejected(_)
            | EventKind::Unreachable(_)
            | EventKind::ConnectError(_)
            | EventKind::Disconnected(_)
    )
}
