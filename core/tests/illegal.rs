//! Every operation in every state: legal, or exactly this error and nothing changed.

use nanocm_core::addr::ScopedIp;
use nanocm_core::port::PortKey;
use nanocm_core::testing::{Capacity, Solo, World};
use nanocm_core::wire::{MessageKind, RejectReason};
use nanocm_core::{
    ConnParam, ConnState, Id, IdOption, Outcome, PortSpace, QpState, Route, State, State::*,
};
use std::fmt::Debug;
use std::net::SocketAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Where an identifier stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stand {
    id: State,
    conn: ConnState,
    active: bool,
}

/// How to bring an identifier where, for all of them.
type Bring = (Stand, fn(&mut Solo<'_>) -> Id);

fn plain(id: State, bring: fn(&mut Solo<'_>) -> Id) -> Bring {
    (Stand { id, conn: ConnState::Idle, active: true }, bring)
}

fn idle(solo: &mut Solo<'_>) -> Id {
    solo.cm.create_id(PortSpace::Tcp, 0).unwrap()
}

fn resolving(solo: &mut Solo<'_>) -> Id {
    let (id, to) = (idle(solo), SocketAddr::new(solo.peer_ip, 7471));
    solo.cm.resolve_addr(solo.now, id, None, to, SECOND).unwrap();
    id
}

fn resolved(solo: &mut Solo<'_>) -> Id {
    let id = resolving(solo);
    let (request, _) = solo.cm.poll_request().unwrap();
    let path = solo.path(&solo.peer_at_home());
    solo.cm.handle_completion(solo.now, request, Outcome::AddrResolved { path }).unwrap();
    solo.tells(&["ADDR_RESOLVED"]);
    id
}

macro_rules! connected {
    ($id:ident $conn:ident $active:literal) => {
        (Stand { id: $id, conn: ConnState::$conn, active: $active }, |solo| {
            solo.bring(ConnState::$conn, $active).id
        })
    };
}

/// Over after a rejection of what had been answered, or after a proper end; still in timewait or not.
fn over(solo: &mut Solo<'_>, active: bool, proper: bool, timewait: bool) -> Id {
    use ConnState::*;
    let it = if proper {
        solo.bring(Timewait, active)
    } else {
        let it = solo.bring(if active { RepRcvd } else { RepSent }, active);
        let rej = it.peer.rej(it.comm_id, MessageKind::OTHER, RejectReason::CONSUMER);
        let _ = solo.hears(&it.peer, &rej);
        solo.tells(&["REJECTED"]);
        it
    };
    if !timewait {
        solo.wait(SECOND);
        solo.tells(&["TIMEWAIT_EXIT"]);
    }
    it.id
}

macro_rules! over {
    ($id:ident $conn:ident $active:literal) => {
        (Stand { id: $id, conn: ConnState::$conn, active: $active }, |solo| {
            let timewait = matches!(ConnState::$conn, ConnState::Timewait);
            over(solo, $active, matches!($id, Disconnect), timewait)
        })
    };
}

/// Its device is gone, and it has been told.
fn removed(solo: &mut Solo<'_>, bring: fn(&mut Solo<'_>) -> Id) -> Id {
    let id = bring(solo);
    solo.remove_device();
    while solo.cm.poll_event().is_some() {}
    id
}

fn everywhere() -> Vec<Bring> {
    vec![
        plain(Idle, idle),
        plain(AddrBound, |solo| {
            let (id, local) = (idle(solo), SocketAddr::new(solo.ip, 0));
            solo.cm.bind(id, local).unwrap();
            id
        }),
        plain(AddrQuery, resolving),
        plain(AddrResolved, resolved),
        plain(RouteQuery, |solo| {
            let id = resolved(solo);
            solo.cm.resolve_route(solo.now, id, SECOND).unwrap();
            id
        }),
        plain(RouteResolved, |solo| {
            let peer = solo.peer();
            solo.route_to(&peer)
        }),
        plain(Listen, |solo| solo.listen(9000, 0)),
        connected!(Connect ReqSent true),
        connected!(Connect ReqRcvd false),
        connected!(Connect RepRcvd true),
        connected!(Connect RepSent false),
        connected!(Connect Established true),
        connected!(Connect Established false),
        connected!(Connect DreqSent true),
        connected!(Connect DreqSent false),
        connected!(Connect RejSent false),
        connected!(Connect Idle true),
        connected!(Connect Idle false),
        connected!(Disconnect DreqRcvd true),
        connected!(Disconnect DreqRcvd false),
        over!(Connect Timewait true),
        over!(Connect Timewait false),
        over!(Connect Idle true),
        over!(Connect Idle false),
        over!(Disconnect Timewait true),
        over!(Disconnect Timewait false),
        over!(Disconnect Idle true),
        over!(Disconnect Idle false),
        plain(DeviceRemoval, |solo| removed(solo, |solo| solo.listen(9000, 0))),
        plain(DeviceRemoval, |solo| removed(solo, |solo| solo.bring(ConnState::ReqRcvd, false).id)),
        plain(DeviceRemoval, |solo| {
            removed(solo, |solo| solo.bring(ConnState::Established, true).id)
        }),
    ]
}

/// What an operation gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Gives {
    Ok,
    InvalidState,
    AlreadyGone,
    AlreadyEstablished,
    DeviceGone,
}
use Gives::*;

type Operation = (&'static str, fn(&mut Solo<'_>, Id) -> Result<(), String>, fn(Stand) -> Gives);

fn text<T, E: Debug>(result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| format!("{error:?}"))
}

fn only(legal: bool) -> Gives {
    if legal { Ok } else { InvalidState }
}

/// Of an operation on an attempt or a connection, which needs one of these states.
fn attempt(stand: Stand, legal: &[ConnState]) -> Gives {
    match (stand.id, stand.conn) {
        (Connect, conn) if legal.contains(&conn) => Ok,
        (Connect, ConnState::Idle | ConnState::Timewait) => AlreadyGone,
        _ => InvalidState,
    }
}

const OPERATIONS: &[Operation] = {
    use ConnState::{DreqRcvd, Established, RepRcvd, RepSent, ReqRcvd, ReqSent, Timewait};
    &[
        (
            "bind",
            |solo, id| text(solo.cm.bind(id, SocketAddr::new(solo.ip, 9001))),
            |stand| only(stand.id == Idle),
        ),
        (
            "propose_port",
            |solo, id| text(solo.cm.propose_port(id, SocketAddr::new(solo.ip, 9001), None)),
            |stand| only(stand.id == Idle),
        ),
        (
            "bind_reserved",
            |solo, id| {
                let local = ScopedIp::of(SocketAddr::new(solo.ip, 0));
                let key = PortKey { space: PortSpace::Tcp, local, port: 9001 };
                text(solo.cm.bind_reserved(id, key, None))
            },
            |stand| only(stand.id == Idle),
        ),
        ("listen", |solo, id| text(solo.cm.listen(id, 0)), |stand| only(stand.id == AddrBound)),
        (
            "resolve_addr",
            |solo, id| {
                let to = SocketAddr::new(solo.peer_ip, 7471);
                text(solo.cm.resolve_addr(solo.now, id, None, to, SECOND))
            },
            |stand| only(matches!(stand.id, Idle | AddrBound)),
        ),
        (
            "resolve_route",
            |solo, id| text(solo.cm.resolve_route(solo.now, id, SECOND)),
            |stand| only(stand.id == AddrResolved),
        ),
        (
            "set_route",
            |solo, id| {
                let to = SocketAddr::new(solo.peer_ip, 7471);
                let route = Route::new(solo.path(&solo.peer_at_home()));
                text(solo.cm.set_route(solo.now, id, to, &route))
            },
            |stand| only(matches!(stand.id, Idle | AddrBound | AddrResolved)),
        ),
        (
            "connect",
            |solo, id| {
                let param = ConnParam::new(0x777);
                text(solo.cm.connect(solo.now, id, &param))
            },
            |stand| only(stand.id == RouteResolved),
        ),
        (
            "accept",
            |solo, id| {
                let param = ConnParam::new(0x778);
                text(solo.cm.accept(solo.now, id, &param))
            },
            |stand| attempt(stand, &[ReqRcvd]),
        ),
        (
            "reject",
            |solo, id| text(solo.cm.reject(solo.now, id, RejectReason::CONSUMER, b"no")),
            |stand| attempt(stand, &[ReqRcvd, RepRcvd, RepSent]),
        ),
        (
            "establish",
            |solo, id| text(solo.cm.establish(solo.now, id, b"go")),
            |stand| match stand.conn {
                Established if stand.id == Connect => AlreadyEstablished,
                _ => attempt(stand, &[RepRcvd]),
            },
        ),
        (
            "notify_established",
            |solo, id| text(solo.cm.notify_established(solo.now, id)),
            |stand| match stand.conn {
                Established if stand.id == Connect => AlreadyEstablished,
                _ => attempt(stand, &[RepSent]),
            },
        ),
        (
            "disconnect",
            |solo, id| text(solo.cm.disconnect(solo.now, id, b"bye")),
            |stand| match (stand.id, stand.conn) {
                // What is over already needs no more.
                (Disconnect, DreqRcvd | Timewait | ConnState::Idle) => Ok,
                _ => attempt(stand, &[Established]),
            },
        ),
        (
            "reset",
            |solo, id| text(solo.cm.reset(id)),
            |stand| {
                let over = matches!(stand.id, Connect | Disconnect) && stand.active;
                only(over && stand.conn == ConnState::Idle)
            },
        ),
        (
            "qp_attrs to INIT",
            |solo, id| text(solo.cm.qp_attrs(id, QpState::Init)),
            |stand| {
                let known = [ReqSent, ReqRcvd, RepRcvd, RepSent, Established];
                only(known.contains(&stand.conn) || stand.id == RouteResolved)
            },
        ),
        (
            "qp_attrs to RTS",
            |solo, id| text(solo.cm.qp_attrs(id, QpState::ReadyToSend)),
            |stand| only([ReqRcvd, RepRcvd, RepSent, Established].contains(&stand.conn)),
        ),
        (
            "set_option TOS",
            |solo, id| text(solo.cm.set_option(id, IdOption::Tos(4))),
            |at| only(!matches!(at.id, Connect | Disconnect | Listen)),
        ),
        (
            "set_option reject when full",
            |solo, id| text(solo.cm.set_option(id, IdOption::RejectWhenFull(true))),
            |at| only(matches!(at.id, Idle | AddrBound | Listen)),
        ),
        (
            "set_option REUSEADDR",
            |solo, id| text(solo.cm.set_option(id, IdOption::ReuseAddr(true))),
            |stand| only(stand.id != Listen),
        ),
        (
            "set_option no REUSEADDR",
            |solo, id| text(solo.cm.set_option(id, IdOption::ReuseAddr(false))),
            |stand| only(stand.id == Idle),
        ),
        (
            "set_option AFONLY",
            |solo, id| text(solo.cm.set_option(id, IdOption::AfOnly(true))),
            |stand| only(stand.id == Idle),
        ),
        ("set_user", |solo, id| text(solo.cm.set_user(id, 5)), |_| Ok),
        ("state", |solo, id| text(solo.cm.state(id)), |_| Ok),
        ("conn_state", |solo, id| text(solo.cm.conn_state(id)), |_| Ok),
        ("local_addr", |solo, id| text(solo.cm.local_addr(id)), |_| Ok),
        ("peer_addr", |solo, id| text(solo.cm.peer_addr(id)), |_| Ok),
        ("peer_param", |solo, id| text(solo.cm.peer_param(id)), |_| Ok),
        ("path", |solo, id| text(solo.cm.path(id)), |_| Ok),
        ("destroy", |solo, id| text(solo.cm.destroy(solo.now, id)), |_| Ok),
    ]
};

/// What can be asked and done when the device is gone.
const STILL_LEGAL: [&str; 7] =
    ["state", "conn_state", "local_addr", "peer_addr", "peer_param", "path", "destroy"];

/// What the error says, where there is one.
fn expected(gives: Gives, stand: Stand) -> Result<(), String> {
    match gives {
        Ok => Result::Ok(()),
        InvalidState => Err(format!("InvalidState {{ state: {:?} }}", stand.id)),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn each_operation_in_each_state_is_legal_or_refused_without_effect() {
    for (stand, bring) in everywhere() {
        for (name, operation, gives) in OPERATIONS {
            World::new().of(Capacity::of(4)).solo(|mut solo| {
                let listener = solo.listen(7471, 0);
                let id = bring(&mut solo);
                let stands = (solo.cm.state(id).unwrap(), solo.cm.conn_state(id).unwrap());
                assert_eq!(stands, (stand.id, stand.conn));
                let untouched = format!("{:?}", solo.cm);
                let (at, used) = (solo.cm.poll_at(), solo.cm.in_use());
                let done = operation(&mut solo, id);
                let gives = match stand.id {
                    DeviceRemoval if !STILL_LEGAL.contains(name) => DeviceGone,
                    _ => gives(stand),
                };
                assert_eq!(done, expected(gives, stand), "{name} in {stand:?}");
                if done.is_err() {
                    assert_eq!(format!("{:?}", solo.cm), untouched, "{name} in {stand:?}");
                    assert_eq!((solo.cm.poll_at(), solo.cm.in_use()), (at, used));
                    assert_eq!(solo.cm.poll_event(), None);
                    let mut mad = [0; 256];
                    assert_eq!(solo.cm.poll_transmit(solo.now, &mut mad), None);
                }
                let ids = if *name == "destroy" { vec![listener] } else { vec![listener, id] };
                solo.assert_clean(&ids);
            });
        }
    }
}

#[test]
fn a_stale_handle_is_refused_by_every_operation() {
    World::new().solo(|mut solo| {
        let stale = idle(&mut solo);
        solo.cm.destroy(solo.now, stale).unwrap();
        // Its slot has somebody else by now.
        let others: Vec<_> = (0..7).map(|_| idle(&mut solo)).collect();
        for id in
            [stale, Id::from_raw(0), Id::from_raw(u64::MAX), Id::from_raw(u64::from(u32::MAX))]
        {
            for (name, operation, _) in OPERATIONS {
                let untouched = format!("{:?}", solo.cm);
                let done = operation(&mut solo, id);
                assert_eq!(done, Err("NoSuchId".to_owned()), "{name}");
                assert_eq!(format!("{:?}", solo.cm), untouched, "{name}");
            }
            assert_eq!(solo.cm.private_data(id), []);
            assert_eq!(solo.cm.additional_info(id), []);
        }
        solo.assert_clean(&others);
    });
}

#[test]
fn the_state_is_looked_at_before_the_arguments() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ConnState::Established, true);
        let invalid = format!("InvalidState {{ state: {:?} }}", State::Connect);
        let mut peer = it.peer;
        peer.ip = "fd00::1".parse().unwrap();
        let nowhere = SocketAddr::new("0.0.0.0".parse().unwrap(), 0);
        let foreign = SocketAddr::new("10.0.0.99".parse().unwrap(), 1);
        let route = Route::new(solo.path(&peer));
        let mut param = ConnParam::new(u32::MAX);
        param.private_data = &[0; 300];
        let (now, cm) = (solo.now, &mut solo.cm);
        for done in [
            text(cm.bind(it.id, foreign)),
            text(cm.set_route(now, it.id, nowhere, &route)),
            text(cm.resolve_addr(now, it.id, Some(foreign), nowhere, SECOND)),
            text(cm.resolve_route(now, it.id, Duration::ZERO)),
            text(cm.connect(now, it.id, &param)),
            text(cm.accept(now, it.id, &param)),
            text(cm.reject(now, it.id, RejectReason::CONSUMER, &[0; 300])),
        ] {
            assert_eq!(done, Err(invalid.clone()));
        }
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn a_zero_timeout_is_refused() {
    World::new().solo(|mut solo| {
        let zero = nanocm_core::error::ResolveError::ZeroTimeout;
        let id = idle(&mut solo);
        let to = SocketAddr::new(solo.peer_ip, 7471);
        let refused = solo.cm.resolve_addr(solo.now, id, None, to, Duration::ZERO);
        assert_eq!(refused, Err(zero));
        let resolved = resolved(&mut solo);
        let refused = solo.cm.resolve_route(solo.now, resolved, Duration::ZERO);
        assert_eq!(refused, Err(zero));
        solo.assert_clean(&[id, resolved]);
    });
}
