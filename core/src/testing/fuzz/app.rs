//! An application with its engine: what it does is a number, on which identifier and how are others.

use super::addresses::{ib_path, link_local, local, remote, v4, v6};
use crate::addr::{Path, PortSpace, RocePath, ScopedIp};
use crate::event::EventKind;
use crate::gids::PortEvent;
use crate::request::{Outcome, Request, Route};
use crate::testing::Watch;
use crate::wire::{Ece, Mad, RejectReason};
use crate::{
    Cm, ConnParam, ConnState, Id, IdOption, Instant, QpState, RequestId, SendToken, State,
    Transport, Transports,
};
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

/// The bit of [`Step::what`] that says that it is not the application that does it.
pub(super) const ELSEWHERE: u8 = 0x40;

/// What happens, to whom, and how: four octets. Inputs that are kept go by these numbers: what is new
/// comes last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) what: u8,
    pub(super) who: u8,
    pub(super) a: u8,
    pub(super) b: u8,
}

macro_rules! numbered {
    ($(#[$doc:meta])* $Name:ident { $($variant:ident)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub(super) enum $Name { $($variant),* }

        impl $Name {
            pub(super) const ALL: &'static [$Name] = &[$($Name::$variant),*];

            /// The one that an octet stands for.
            pub(super) fn of(what: u8) -> $Name {
                $Name::ALL[usize::from(what & !ELSEWHERE) % $Name::ALL.len()]
            }
        }
    };
}
pub(super) use numbered;

numbered! {
    /// What an application, its host or its transport can do.
    Action {
        Create Bind Reserve Listen ResolveAddr ResolveRoute SetRoute Connect Accept Reject Establish
        Notify Disconnect Reset Destroy Option User Look Port Complete SendFailed Next
    }
}

/// Identifiers are kept by number, dead ones until their number is taken again.
const NUMBERS: usize = 16;

/// Most private data lengths that a message has, and some that none has.
const LENGTHS: [usize; 16] =
    [0, 1, 5, 55, 56, 57, 136, 137, 148, 149, 180, 196, 197, 216, 224, 230];

/// An application.
pub(super) struct App<'s> {
    pub(super) cm: Watch<'s>,
    /// The last octet of its addresses, and of its peers'.
    pub(super) here: u8,
    pub(super) there: [u8; 2],
    ids: [Id; NUMBERS],
    questions: VecDeque<(RequestId, Request)>,
    tokens: VecDeque<SendToken>,
    qpns: u32,
}

impl<'s> App<'s> {
    /// An application at the addresses that end in `here`, on a new engine.
    pub(super) fn new(cm: Cm<'s>, now: Instant, here: u8, there: [u8; 2]) -> App<'s> {
        let mut cm = Watch::new(cm);
        for ip in [v4(here), v6(here)] {
            let address = ScopedIp { gid: ip.into(), scope: 0 };
            let event = PortEvent::GidAdded { address, ca_guid: here.into() };
            assert!(cm.handle_port_event(now, event));
        }
        App {
            cm,
            here,
            there,
            ids: [Id::from_raw(3); NUMBERS],
            questions: VecDeque::new(),
            tokens: VecDeque::new(),
            qpns: 0x1000,
        }
    }

    /// The identifiers that live.
    pub(super) fn live(&self) -> Vec<Id> {
        self.ids.iter().copied().filter(|&id| self.cm.state(id).is_ok()).collect()
    }

    /// Does something. A refused call changes nothing.
    pub(super) fn act(&mut self, now: Instant, action: Action, step: Step) {
        use Action::*;
        // Looking at all there is takes long. Who searches for a port moves where the next search
        // begins, whatever comes of it.
        let looks = step.who & 0xf0 == 0xf0
            && matches!(
                action,
                Listen
                    | Connect
                    | Accept
                    | Reject
                    | Establish
                    | Notify
                    | Disconnect
                    | Reset
                    | Destroy
                    | Option
                    | User
                    | ResolveRoute
            );
        let before = looks.then(|| {
            let _ = self.cm.handle_timeout(now, 0);
            format!("{:?}", self.cm)
        });
        let refused = self.call(now, action, step).is_err();
        if let (true, Some(before)) = (refused, before) {
            assert_eq!(before, format!("{:?}", self.cm), "{action:?} was refused");
        }
    }

    fn call(&mut self, now: Instant, action: Action, step: Step) -> Result<(), ()> {
        let Step { who, a, b, .. } = step;
        let id = self.ids[usize::from(who) % NUMBERS];
        let data = [b | 1; 230];
        let data = &data[..LENGTHS[usize::from(b) % LENGTHS.len()]];
        let param = self.param(a, data);
        let timeout = Duration::from_secs([3, 0, 1, 300][usize::from(b >> 6)]);
        let cm = &mut self.cm;
        match action {
            Action::Create => self.create(who, a, b),
            Action::Bind => done(cm.bind(id, local(self.here, a, b))),
            Action::Reserve => {
                let remote = (b & 0x80 != 0).then(|| remote(&self.there, b));
                let proposal = cm.propose_port(id, local(self.here, a, b), remote).map_err(drop)?;
                done(cm.bind_reserved(id, proposal.key(), remote))
            }
            Action::Listen => done(cm.listen(id, u32::from(a & 3))),
            Action::ResolveAddr => {
                let source = (b & 0x20 != 0).then(|| local(self.here, a >> 4, b));
                done(cm.resolve_addr(now, id, source, remote(&self.there, a), timeout))
            }
            Action::ResolveRoute => done(cm.resolve_route(now, id, timeout)),
            Action::SetRoute => {
                let (to, route) = (remote(&self.there, a), self.route(a, b));
                done(self.cm.set_route(now, id, to, &route))
            }
            Action::Connect => done(cm.connect(now, id, &param)),
            Action::Accept => done(cm.accept(now, id, &param)),
            Action::Reject => done(cm.reject(now, id, RejectReason(a.into()), data)),
            Action::Establish => done(cm.establish(now, id, data)),
            Action::Notify => done(cm.notify_established(now, id)),
            Action::Disconnect => done(cm.disconnect(now, id, data)),
            Action::Reset => done(cm.reset(id)),
            Action::Destroy => done(cm.destroy(now, id)),
            Action::Option => done(cm.set_option(id, option(a, b))),
            Action::User => done(cm.set_user(id, u64::from(a) << 8 | u64::from(b))),
            Action::Look => self.look(id),
            Action::Port => self.port_changes(now, a, b),
            Action::Complete => self.complete(now, who, a, b),
            Action::SendFailed => self.send_fails(now, who, a),
            Action::Next => self.next(now, who, a, b),
        }
    }

    /// A new identifier takes the number `who`, or the first that is free.
    fn create(&mut self, who: u8, a: u8, b: u8) -> Result<(), ()> {
        use PortSpace::*;
        let space = [Tcp, Tcp, Tcp, Tcp, Udp, Ipoib, Ib, Sdp][usize::from(a & 7)];
        let id = self.cm.create_id(space, b.into()).map_err(drop)?;
        self.keep(usize::from(who) % NUMBERS, id);
        Ok(())
    }

    fn keep(&mut self, wanted: usize, id: Id) {
        let mut numbers = std::iter::once(wanted).chain(0..NUMBERS);
        let free = numbers.find(|&number| self.cm.state(self.ids[number]).is_err());
        self.ids[free.expect("more numbers than identifiers")] = id;
    }

    fn param<'d>(&mut self, a: u8, data: &'d [u8]) -> ConnParam<'d> {
        self.qpns += 1;
        let mut param = ConnParam::new(self.qpns);
        match a >> 4 {
            1 => param.qpn = u32::from(a & 3),
            2 => param.qpn = 1 << 24,
            3 => param.timeout = Some(Duration::from_secs(2)),
            4 => param.timeout = Some(Duration::ZERO),
            5 => param.retries = Some(a & 3),
            6 => (param.responder_resources, param.initiator_depth) = (a, a & 7),
            7 => (param.flow_control, param.srq) = (true, true),
            8 => (param.retry_count, param.rnr_retry_count) = (a & 7, a),
            9 => param.transport = [Transport::Uc, Transport::Xrc][usize::from(a & 1)],
            10 => param.ece = Ece { vendor_id: u32::from(a & 1) << 24 | 5, options: 7 },
            11 => param.qkey = a.into(),
            _ => {}
        }
        param.private_data = data;
        param
    }

    /// A route to the destination that `a` stands for, or one that does not fit.
    fn route(&self, a: u8, b: u8) -> Route {
        let to = remote(&self.there, a).ip();
        let from = if to.is_ipv4() { v4(self.here) } else { v6(self.here) };
        let mut path = RocePath::new(from.into(), to.into());
        match b & 15 {
            1 => path.local = v4(77).into(),
            2 => path.local = v4(self.here + 100).into(),
            3 => path.local = v6(self.here).into(),
            4 => path.remote = v4(self.there[1]).into(),
            5 => (path.traffic_class, path.hop_limit, path.flow_label) = (a, 0, 0x1_2345),
            6 => path.scope = 2,
            _ => {}
        }
        let mut route = Route::new(Path::Roce(path));
        if b & 15 == 7 {
            route.path = ib_path(from.into(), to.into(), b & 0x20 == 0);
        }
        (route.mtu, route.packet_lifetime) = (1 + (b >> 4 & 3), 16 - (b >> 6));
        route
    }

    /// Whatever can be asked about an identifier.
    fn look(&mut self, id: Id) -> Result<(), ()> {
        let cm = &self.cm;
        let _ = (cm.private_data(id), cm.additional_info(id));
        for to in [QpState::Init, QpState::ReadyToReceive, QpState::ReadyToSend] {
            let _ = cm.qp_attrs(id, to).map_err(|error| (error.errno(), error.to_string()));
        }
        let state = cm.state(id).map_err(|error| drop((error.errno(), error.to_string())))?;
        let conn = cm.conn_state(id).expect("it lives");
        let _ = format!("{state} {conn} {id:?}");
        let _ = (cm.local_addr(id), cm.peer_addr(id), cm.peer_param(id), cm.path(id));
        let _ = cm.owes_disconnected(id);
        let (ids, _) = cm.in_use();
        assert!(ids > 0 && !cm.is_clean());
        Ok(())
    }

    /// An address comes, goes or changes: a second one, the link-local one, or one of those that were
    /// there, or a peer's. Or a device goes.
    fn port_changes(&mut self, now: Instant, a: u8, b: u8) -> Result<(), ()> {
        let here = if b & 1 == 0 { self.here } else { self.there[0] };
        let addresses = [v4(here + 100), v4(here), v6(here)];
        let address = match usize::from(a & 3) {
            3 => ScopedIp::of(link_local(here)),
            n => ScopedIp { gid: addresses[n].into(), scope: 0 },
        };
        let ca_guid = u64::from(a >> 4);
        let event = match a >> 2 & 3 {
            0 => PortEvent::GidAdded { address, ca_guid },
            1 => PortEvent::GidRemoved { address },
            2 => PortEvent::AddrChanged { address },
            _ => PortEvent::DeviceRemoved { ca_guid },
        };
        self.cm.handle_port_event(now, event).then_some(()).ok_or(())
    }

    /// The host answers a question: as it should, with nonsense, or twice.
    fn complete(&mut self, now: Instant, who: u8, a: u8, b: u8) -> Result<(), ()> {
        let Some(&(request, question)) = nth(&self.questions, who) else { return Err(()) };
        let outcome = match a & 7 {
            0..=3 => self.answer(question),
            4 => Outcome::AddrResolved { path: self.route(a >> 3, b).path },
            5 => Outcome::RouteResolved { route: self.route(a >> 3, b) },
            _ => Outcome::Failed(i32::from(b)),
        };
        if a & 0x80 == 0 {
            self.questions.retain(|(other, _)| *other != request);
        }
        done(self.cm.handle_completion(now, request, outcome))
    }

    /// What a host should answer.
    fn answer(&self, question: Request) -> Outcome {
        match question {
            Request::ResolveAddr { source, destination } => {
                let ours = if destination.is_ipv4() { v4(self.here) } else { v6(self.here) };
                let local = source.map_or(ours.into(), |source| source.gid);
                let mut path = RocePath::new(local, destination.ip().into());
                path.scope = ScopedIp::of(destination).scope;
                Outcome::AddrResolved { path: Path::Roce(path) }
            }
            Request::ResolveRoute { path } => Outcome::RouteResolved { route: Route::new(path) },
        }
    }

    fn send_fails(&mut self, now: Instant, who: u8, a: u8) -> Result<(), ()> {
        let token = match a & 0x80 {
            0 => *nth(&self.tokens, who).ok_or(())?,
            _ => SendToken::from_raw(u64::from(a) << 33 | u64::from(who)),
        };
        self.cm.handle_send_failed(now, token, [111, 105, 11, 101][usize::from(a & 3)]);
        Ok(())
    }

    /// What an application would do next with an identifier.
    fn next(&mut self, now: Instant, who: u8, a: u8, b: u8) -> Result<(), ()> {
        use ConnState::*;
        if self.cm.state(self.ids[usize::from(who) % NUMBERS]).is_err() {
            self.create(who, 0, b)?;
        }
        let id = self.ids[usize::from(who) % NUMBERS];
        let state = self.cm.state(id).expect("it lives");
        let conn = self.cm.conn_state(id).expect("it lives");
        let (listens, resolves) = (a & 0x80 != 0, a & 0x40 != 0);
        let data = [b; 56];
        match (state, conn) {
            (State::Idle, _) if listens => {
                let port = if a & 1 == 0 { 7471 } else { 7472 };
                self.cm.bind(id, SocketAddr::new(v4(self.here), port)).map_err(drop)?;
                done(self.cm.listen(id, 0))
            }
            (State::Idle | State::AddrBound, _) if resolves => {
                let to = remote(&self.there, a & 15);
                done(self.cm.resolve_addr(now, id, None, to, Duration::from_secs(3)))
            }
            (State::Idle | State::AddrBound, _) => {
                let (to, route) = (remote(&self.there, a & 15), self.route(a & 15, 0));
                done(self.cm.set_route(now, id, to, &route))
            }
            (State::AddrResolved, _) => {
                done(self.cm.resolve_route(now, id, Duration::from_secs(1)))
            }
            (State::RouteResolved, _) => {
                let param = self.param(0, &data);
                done(self.cm.connect(now, id, &param))
            }
            (State::Connect | State::Disconnect, Idle) => {
                done(self.cm.reset(id)).or_else(|()| done(self.cm.destroy(now, id)))
            }
            (State::Connect, SidrResolved | SidrRepSent) if a & 1 == 0 => {
                done(self.cm.destroy(now, id))
            }
            (State::Connect, SidrResolved) => done(self.cm.reset(id)),
            (_, Established) => done(self.cm.disconnect(now, id, &data)),
            _ => self.settle(now, id),
        }
    }

    /// What an application would do that wants nothing new: answer whoever waits for it.
    pub(super) fn settle(&mut self, now: Instant, id: Id) -> Result<(), ()> {
        match self.cm.conn_state(id) {
            Ok(ConnState::ReqRcvd | ConnState::SidrReqRcvd) => {
                let param = self.param(0, &[0x33; 56]);
                done(self.cm.accept(now, id, &param))
            }
            Ok(ConnState::RepRcvd) => done(self.cm.establish(now, id, &[0x44; 224])),
            Ok(ConnState::DreqRcvd) => done(self.cm.disconnect(now, id, &[0x55; 220])),
            _ => Ok(()),
        }
    }

    /// Takes as many events as `most`, and keeps the identifiers that are new.
    pub(super) fn fetch_events(&mut self, most: usize) -> bool {
        for _ in 0..most {
            let Some(event) = self.cm.poll_event() else { return false };
            let _ = event.kind.name();
            if let Some(failure) = self.cm.failure(&event) {
                assert!(failure.to_string().len() <= 160, "{failure}");
            }
            assert!(self.cm.state(event.id).is_ok(), "{event:?} of nobody");
            if let EventKind::ConnectRequest { .. } = event.kind {
                self.keep(0, event.id);
            }
            let _ = self.look(event.id);
        }
        true
    }

    /// Takes as many questions as `most`.
    pub(super) fn fetch_questions(&mut self, most: usize) {
        for _ in 0..most {
            let Some(question) = self.cm.poll_request() else { return };
            remember(&mut self.questions, question);
        }
    }

    /// Takes the next datagram.
    pub(super) fn fetch_datagram(&mut self, now: Instant) -> Option<(Path, Mad)> {
        let mut mad = [0; 256];
        let sent = self.cm.poll_transmit(now, &mut mad)?;
        remember(&mut self.tokens, sent.token);
        Some((sent.path, mad))
    }

    /// Answers every question as a host should.
    pub(super) fn answer_all(&mut self, now: Instant) {
        self.fetch_questions(usize::MAX);
        while let Some((request, question)) = self.questions.pop_front() {
            let outcome = self.answer(question);
            let _ = self.cm.handle_completion(now, request, outcome);
        }
    }

    /// Lets go of everything.
    pub(super) fn destroy_all(&mut self, now: Instant) {
        while self.fetch_events(1) {}
        for id in self.live() {
            self.cm.destroy(now, id).expect("it lives");
        }
        assert_eq!(self.cm.poll_event(), None, "when all are destroyed");
    }
}

/// Whatever came of it, but for whether it was done.
fn done<T, E>(outcome: Result<T, E>) -> Result<(), ()> {
    outcome.map(drop).map_err(drop)
}

/// The last few are remembered.
pub(super) fn remember<T>(memory: &mut VecDeque<T>, what: T) {
    if memory.len() == 16 {
        memory.pop_front();
    }
    memory.push_back(what);
}

/// The n-th last.
pub(super) fn nth<T>(memory: &VecDeque<T>, n: u8) -> Option<&T> {
    memory.get((memory.len()).checked_sub(1 + usize::from(n) % memory.len().max(1))?)
}

fn option(a: u8, b: u8) -> IdOption {
    match a & 7 {
        0 => IdOption::Tos(b),
        1 => IdOption::ReuseAddr(true),
        2 => IdOption::ReuseAddr(false),
        3 => IdOption::AfOnly(b & 1 == 0),
        4 => IdOption::Transports(Transports::RC | Transports::UC | Transports::XRC),
        5 => IdOption::Transports(Transports::XRC),
        6 => IdOption::RejectWhenFull(b & 1 == 0),
        _ => IdOption::AckTimeout(b & 31),
    }
}
