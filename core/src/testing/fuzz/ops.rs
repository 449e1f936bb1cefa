//! One engine: an application, a host, a transport and peers that do anything at any time.

use super::Input;
use super::addresses::{ib_path, remote, v4, v6};
use super::app::{Action, App, ELSEWHERE, Step, nth, numbered, remember};
use crate::addr::{Gid, Path, PortSpace, RocePath, ServiceId};
use crate::testing::{Capacity, Memory, Peer, STARTS, comm_id, name};
use crate::wire::roce::FrameFault;
use crate::wire::{
    ApStatus, Apr, IpCmHeader, Lap, Mad, MessageKind, Rej, RejectReason, Rep, Req, SidrStatus, View,
};
use crate::{Config, Instant};
use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

numbered! {
    /// What the rest of the world can do.
    World { Request Reply Again Raw Fault Wait Jump Poll }
}

/// Operations, completions, events, datagrams and time in any order: nothing panics, the engine
/// keeps what it promises after every call, and nothing is left when all is destroyed.
pub fn ops(octets: &[u8]) {
    let mut input = Input::new(octets);
    let (settings, size) = (input.octet(), input.octet());
    let capacity = Capacity {
        ids: 9,
        conns: 1 + usize::from(size & 7),
        replies: 1 + usize::from(size >> 3 & 3),
        ports: [12, 4][usize::from(size >> 5 & 1)],
        gids: [4, 3][usize::from(size >> 6 & 1)],
        map: 8,
    };
    let mut config = Config::new(input.octet().into());
    config.port_range = (40_000, 40_007);
    config.timers.accept_deadline = Duration::from_secs(10);
    config.lenient = settings & 1 != 0;
    config.loopback_is_wildcard = settings & 2 != 0;
    config.comm_id_prefix = if settings & 4 != 0 { (0xa5, 8) } else { (0, 0) };
    config.max_path_mtu = if settings & 32 != 0 { 2 } else { 5 };
    config.default_backlog = 2;
    if settings & 64 != 0 {
        (config.half_open, config.half_open_per_source) = (2, 1);
    }
    if settings & 128 != 0 {
        (config.answers_per_second, config.passive_retries) = (2, 0);
    }
    let start = STARTS[input.below(STARTS.len())];
    let mut memory = Memory::new(capacity);
    let cm = memory.engine(config).expect("sound capacities");
    let mut ops = Ops {
        app: App::new(cm, start, 2, [1, 11]),
        now: start,
        polls: settings & 8 == 0,
        answers: settings & 16 == 0,
        heard: VecDeque::new(),
        said: VecDeque::new(),
        qpns: BTreeMap::new(),
        requests: 0,
    };
    while !input.is_empty() {
        let [what, who, a, b] = input.octets();
        ops.step(Step { what: what & 0x7f, who, a, b }, &mut input);
    }
    ops.end();
}

struct Ops<'s> {
    app: App<'s>,
    now: Instant,
    /// Whether all that can be polled is, after every step.
    polls: bool,
    /// Whether the host answers its questions at once.
    answers: bool,
    /// What the engine has sent last, and where to.
    heard: VecDeque<(Path, Mad)>,
    /// What peers have sent last.
    said: VecDeque<(Path, Mad)>,
    /// Our queue pairs, by communication ID.
    qpns: BTreeMap<u32, u32>,
    requests: u32,
}

impl Ops<'_> {
    fn step(&mut self, step: Step, input: &mut Input<'_>) {
        let Step { who, a, b, .. } = step;
        if step.what & ELSEWHERE == 0 {
            self.app.act(self.now, Action::of(step.what), step);
        } else {
            match World::of(step.what) {
                World::Request => self.request(who, a, b),
                World::Reply => self.reply(who, a, b),
                World::Again => self.again(who, a, b),
                World::Raw => self.raw(a, b, input),
                World::Fault => self.fault(a),
                World::Wait => self.wait(after(a), b),
                World::Jump if who & 1 == 0 => self.now = self.now + after(a),
                World::Jump => self.look_back(after(a)),
                World::Poll => self.poll(a, usize::from(b & 15)),
            }
        }
        if self.polls {
            self.poll(0xff, usize::MAX);
        }
    }

    fn poll(&mut self, what: u8, most: usize) {
        if what & 1 != 0 {
            self.app.fetch_events(most);
        }
        if what & 2 != 0 {
            self.hear(most);
        }
        if what & 4 != 0 {
            if self.answers {
                self.app.answer_all(self.now);
            } else {
                self.app.fetch_questions(most);
            }
        }
        // An answer of the host's may be news.
        if what == 0xff {
            self.app.fetch_events(most);
            self.hear(most);
        }
    }

    /// What the engine sends comes to its peers.
    fn hear(&mut self, most: usize) {
        for _ in 0..most {
            let Some((path, mad)) = self.app.fetch_datagram(self.now) else { return };
            match name(&mad) {
                "REQ" => self.qpns.insert(comm_id(&mad), Req(&mad).local_qpn()),
                "REP" => self.qpns.insert(comm_id(&mad), Rep(&mad).local_qpn()),
                _ => None,
            };
            remember(&mut self.heard, (path, mad));
        }
    }

    /// A peer says something.
    fn say(&mut self, path: Path, mad: Mad) {
        remember(&mut self.said, (path, mad));
        let _ = self.app.cm.handle_datagram(self.now, &path, &mad);
    }

    /// The path from a peer to us.
    fn path_from(&self, ip: IpAddr) -> Path {
        let ours = if ip.is_ipv4() { v4(self.app.here) } else { v6(self.app.here) };
        Path::Roce(RocePath::new(ours.into(), ip.into()))
    }

    /// A REQ, or a SIDR_REQ, from a peer: good, repeated, or wrong in one way.
    fn request(&mut self, who: u8, a: u8, b: u8) {
        self.requests += 1;
        let ip = remote(&self.app.there, a & 15).ip();
        let ours = if ip.is_ipv4() { v4(self.app.here) } else { v6(self.app.here) };
        let port = [7471, 7472, 40_000, 0][usize::from(a >> 4 & 3)];
        let fresh = 0x4000 + self.requests;
        let comm_id = if b & 0x80 == 0 { fresh } else { u32::from(b & 7) };
        let qpn = if b & 0x40 == 0 { fresh } else { u32::from(b >> 3 & 7) };
        let peer = Peer { ip, comm_id, guid: u64::from(who >> 4), qpn, tid: fresh.into() };
        let mut path = self.path_from(ip);
        let mut mad = peer.req(ours, port);
        let mut req = Req(&mut mad);
        match who & 15 {
            1 => _ = req.set_primary_remote_gid(v4(77).into()),
            2 => _ = req.set_transport_service_type(a >> 6),
            3 => _ = req.set_service_id(ServiceId::new(PortSpace::Udp, port)),
            4 => req.set_private_data(&[a]).expect("short"),
            5 => _ = req.set_primary_local_gid(v4(78).into()),
            6 => _ = req.set_path_mtu(b & 15).set_retry_count(a).set_rnr_retry_count(b),
            7 => _ = req.set_max_cm_retries(a).set_local_cm_response_timeout(b),
            8 => _ = req.set_primary_local_ack_timeout(a).set_remote_cm_response_timeout(b),
            9 => path = ib_path(ours.into(), ip.into(), b & 0x20 == 0),
            10 => _ = req.set_service_id(ServiceId(u64::from(a) << 40)),
            11 => {
                let header = IpCmHeader {
                    source_port: 9,
                    source: if a & 0x80 == 0 { v4(77).into() } else { Gid::V4_WILDCARD },
                    destination: if b & 1 == 0 { ours } else { v4(79) }.into(),
                };
                req.set_ip_cm(&header);
            }
            12 => _ = req.set_service_id(ServiceId::new(PortSpace::Ib, port)),
            13 => {
                req.set_ece_vendor_id(5)
                    .set_extended_transport_type(1)
                    .set_transport_service_type(3);
            }
            14 => mad = peer.sidr_req(ours, port),
            _ => {}
        }
        self.say(path, mad);
    }

    /// An answer to what was heard, as it should be, or wrong in one way.
    fn reply(&mut self, who: u8, a: u8, b: u8) {
        let Some(&(to, heard)) = nth(&self.heard, who) else { return };
        let own = comm_id(&heard);
        let (kind, was) = (name(&heard), &heard);
        // The same peer of a connection is called the same again.
        let theirs = match kind {
            "REQ" => own ^ 0x5555_5555,
            _ => Rep(was).remote_comm_id(),
        };
        let mut peer = Peer {
            ip: to.remote_gid().to_ip(),
            comm_id: theirs,
            guid: u64::from(who >> 4),
            qpn: 0x2_0000 | theirs & 0xffff,
            tid: View::new(was).transaction_id(),
        };
        let mut path = to;
        let (mut own, mut qpn) = (own, self.qpns.get(&own).copied().unwrap_or(0));
        match b & 15 {
            1 => path = self.path_from(v4(self.app.there[1])),
            2 => own = 0,
            3 => own ^= 1,
            4 => peer.comm_id = u32::from(b >> 4),
            5 => peer.qpn = u32::from(b >> 4 & 3),
            6 => qpn ^= 1,
            7 => path = ib_path(to.local_gid(), to.remote_gid(), b & 0x20 == 0),
            8 => peer.ip = v4(self.app.there[1]),
            _ => {}
        }
        let of = MessageKind(a >> 4 & 3);
        let mut mad = match (a & 15, kind) {
            (0, "SIDR_REQ") => peer.sidr_rep(own, SidrStatus::VALID),
            (0, "REQ") | (1, _) => peer.rep(own),
            (0, "REP") | (2, _) => peer.rtu(own),
            (0, "DREQ") | (6, _) => peer.drep(own),
            (3, _) => peer.rej(own, of, RejectReason::CONSUMER),
            (4, _) => peer.timeout_rej(),
            (0 | 5, _) => peer.dreq(own, qpn),
            (7, _) => peer.mra(own, of, b >> 3),
            (8, _) => lap(&peer, own, qpn),
            (9, _) => apr(&peer, own, b),
            (10, _) => peer.sidr_rep(own, SidrStatus(b >> 4)),
            (11, _) => peer.rej(own, of, RejectReason(b.into())),
            (12, _) => peer.rej(own, of, RejectReason::INVALID_PATH_MTU),
            (13, _) => *was,
            _ => peer.rej(own, MessageKind::REQ, RejectReason::STALE),
        };
        if b & 15 == 9 {
            mad[usize::from(a)] ^= 1 << (b >> 5);
        }
        if b & 15 == 10 && a & 15 == 12 {
            // The MTU that is offered.
            Rej(&mut mad).set_additional_info(&[b & 0xf0]);
        }
        self.say(path, mad);
    }

    /// What a peer has said, again, perhaps with another octet.
    fn again(&mut self, who: u8, a: u8, b: u8) {
        let Some(&(path, mut mad)) = nth(&self.said, who) else { return };
        mad[usize::from(a)] ^= b;
        self.say(path, mad);
    }

    /// Octets of the input's own.
    fn raw(&mut self, a: u8, b: u8, input: &mut Input<'_>) {
        let ip = remote(&self.app.there, a & 15).ip();
        let path = self.path_from(ip);
        if b == 0 {
            return self.say(path, input.octets());
        }
        let datagram: Vec<u8> = (0..b).map(|_| input.octet()).collect();
        let _ = self.app.cm.handle_datagram(self.now, &path, &datagram);
    }

    /// What the transport does not hand on.
    fn fault(&mut self, a: u8) {
        let _ = match a & 1 {
            0 => self.app.cm.handle_bad_icrc(),
            _ => self.app.cm.handle_frame_fault(FrameFault::MadLength(usize::from(a))),
        };
    }

    /// Time passes, deadline by deadline.
    fn wait(&mut self, time: Duration, b: u8) {
        let end = self.now + time;
        let budget = 1 + usize::from(b & 7);
        for _ in 0..200 {
            let Some(at) = self.app.cm.poll_at().filter(|&at| at <= end) else { break };
            self.now = self.now.max(at);
            while self.app.cm.handle_timeout(self.now, budget) {}
            if b & 8 != 0 {
                self.poll(0xff, usize::MAX);
            }
        }
        self.now = end;
        let _ = self.app.cm.handle_timeout(self.now, budget);
    }

    /// A call brings a time that is over.
    fn look_back(&mut self, time: Duration) {
        let passed = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let earlier = Instant::from_nanos(self.now.as_nanos().saturating_sub(passed));
        let _ = self.app.cm.handle_timeout(earlier, 1);
    }

    /// All is destroyed, and what is left to say is said.
    fn end(mut self) {
        self.app.destroy_all(self.now);
        self.hear(usize::MAX);
        let end = self.now + Duration::from_secs(600);
        while let Some(at) = self.app.cm.poll_at() {
            assert!(at <= end, "a deadline at {at:?}, beyond {end:?}");
            self.now = self.now.max(at);
            while self.app.cm.handle_timeout(self.now, 16) {}
            self.hear(usize::MAX);
        }
        assert!(self.app.cm.is_clean(), "something is left: {:?}", self.app.cm.in_use());
    }
}

/// How long it takes.
fn after(a: u8) -> Duration {
    const MILLISECONDS: [u64; 16] = [
        1,
        0,
        40,
        700,
        1_000,
        1_100,
        3_000,
        5_000,
        10_000,
        31_000,
        61_000,
        125_000,
        3_600_000,
        86_400_000,
        31 * 86_400_000,
        400 * 86_400_000,
    ];
    Duration::from_millis(MILLISECONDS[usize::from(a & 15)] + u64::from(a >> 4))
}

fn lap(peer: &Peer, own: u32, qpn: u32) -> Mad {
    let mut mad = [0; 256];
    Lap::emit(&mut mad, peer.tid)
        .set_local_comm_id(peer.comm_id)
        .set_remote_comm_id(own)
        .set_remote_qpn(qpn);
    mad
}

fn apr(peer: &Peer, own: u32, b: u8) -> Mad {
    let mut mad = [0; 256];
    Apr::emit(&mut mad, peer.tid)
        .set_local_comm_id(peer.comm_id)
        .set_remote_comm_id(own)
        .set_ap_status(ApStatus(b >> 4));
    mad
}
