//! The tables of legal moves: each of them can be made, and `docs/states.md` shows them.
//!
//! After a change of a table: `UPDATE=1 cargo test -p nanocm-core --test states`.

use nanocm_core::testing::{Solo, World};
use nanocm_core::wire::{MessageKind, RejectReason, SidrStatus};
use nanocm_core::{ConnState, Id, Outcome, PortSpace, Route, State, conn, id};
use std::fmt::{Display, Write};
use std::net::SocketAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Makes a connection go from one state to the other.
fn go(solo: &mut Solo<'_>, from: ConnState, to: ConnState) -> Id {
    use ConnState::*;
    if from == Idle {
        // An identifier that has had no connection yet, or does not exist.
        let active = matches!(to, ReqSent | SidrReqSent);
        return solo.bring(to, active).id;
    }
    let active = matches!(from, ReqSent | RepRcvd | Established | DreqSent | DreqRcvd | Timewait);
    let it = solo.bring(from, active);
    let (peer, now) = (it.peer, solo.now);
    let other = MessageKind::OTHER;
    let message = match (from, to) {
        (ReqSent, RepRcvd) => peer.rep(it.comm_id),
        (ReqSent, Idle) => peer.rej(it.comm_id, MessageKind::REQ, RejectReason::CONSUMER),
        (ReqRcvd, Idle) => peer.timeout_rej(),
        (RepSent, Established) => peer.rtu(it.comm_id),
        (RepSent | Established, DreqRcvd) => peer.dreq(it.comm_id, it.qpn),
        (Established, Timewait) => peer.rej(it.comm_id, other, RejectReason::CONSUMER),
        (DreqSent, Timewait) => peer.drep(it.comm_id),
        (SidrReqSent, SidrResolved) => peer.sidr_rep(it.comm_id, SidrStatus::VALID),
        (SidrReqSent, Idle) => peer.sidr_rep(it.comm_id, SidrStatus::REJECTED),
        (RepSent, Timewait) => {
            solo.wait(MINUTE / 2);
            return it.id;
        }
        (Timewait, Idle) => {
            solo.wait(SECOND);
            return it.id;
        }
        _ => {
            match (from, to) {
                (ReqRcvd, RepSent) | (SidrReqRcvd, SidrRepSent) => solo.accept(it.id),
                (SidrResolved, Idle) => solo.cm.reset(it.id).unwrap(),
                (ReqRcvd, RejSent) | (RepRcvd, Timewait) => {
                    solo.cm.reject(now, it.id, RejectReason::CONSUMER, &[]).unwrap();
                }
                (RepRcvd, Established) => solo.cm.establish(now, it.id, &[]).unwrap(),
                (Established, DreqSent) | (DreqRcvd, Timewait) => {
                    solo.cm.disconnect(now, it.id, &[]).unwrap();
                }
                (from, to) => panic!("nobody knows how to go from {from} to {to}"),
            }
            return it.id;
        }
    };
    let _ = solo.hears(&peer, &message);
    it.id
}

#[test]
fn each_legal_move_of_a_connection_can_be_made() {
    for &(from, to, why) in conn::TRANSITIONS {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let datagrams = solo.listen_in(PortSpace::Udp, 7471, 0);
            let id = go(&mut solo, from, to);
            assert_eq!(solo.cm.conn_state(id), Ok(to), "{from} -> {to}: {why}");
            solo.assert_clean(&[listener, datagrams, id]);
        });
    }
}

/// Brings an identifier into a state, and from there into the other.
fn lead(solo: &mut Solo<'_>, from: State, to: State) -> Id {
    use State::*;
    let (now, peer) = (solo.now, solo.peer());
    let (ours, theirs) = (SocketAddr::new(solo.ip, 0), SocketAddr::new(peer.ip, 7471));
    let path = solo.path(&peer);
    let route = Route::new(path);
    let id = solo.cm.create_id(PortSpace::Tcp, 0).unwrap();
    let answer = |solo: &mut Solo<'_>, outcome| {
        let (request, _) = solo.cm.poll_request().expect("a question");
        solo.cm.handle_completion(now, request, outcome).unwrap();
    };
    let found = Outcome::AddrResolved { path };
    if from == AddrBound || matches!((from, to), (AddrQuery, AddrBound | DeviceRemoval)) {
        solo.cm.bind(id, ours).unwrap();
    }
    if matches!(from, AddrQuery | AddrResolved | RouteQuery) {
        solo.cm.resolve_addr(now, id, None, theirs, SECOND).unwrap();
    }
    if matches!(from, AddrResolved | RouteQuery) {
        answer(solo, found);
    }
    if from == RouteQuery {
        solo.cm.resolve_route(now, id, SECOND).unwrap();
    }
    match (from, to) {
        (_, DeviceRemoval) => {
            let id = match from {
                RouteResolved => solo.route_to(&peer),
                Connect => solo.bring(ConnState::RepSent, false).id,
                Disconnect => solo.bring(ConnState::Timewait, true).id,
                Listen => solo.listen(7472, 0),
                _ => id,
            };
            solo.remove_device();
            return id;
        }
        (Idle | AddrBound | AddrResolved, RouteResolved) | (RouteResolved, _) => {
            solo.cm.set_route(now, id, theirs, &route).unwrap();
            if to == Connect {
                solo.connect(id);
            }
        }
        (Idle, AddrBound) => drop(solo.cm.bind(id, ours)),
        (Idle | AddrBound, AddrQuery) => {
            solo.cm.resolve_addr(now, id, None, theirs, SECOND).unwrap();
        }
        (AddrBound, Listen) => solo.cm.listen(id, 0).unwrap(),
        (AddrQuery, AddrResolved) => answer(solo, found),
        (AddrQuery | RouteQuery, Idle | AddrBound | AddrResolved) => {
            answer(solo, Outcome::Failed(1));
        }
        (AddrResolved, RouteQuery) => solo.cm.resolve_route(now, id, SECOND).unwrap(),
        (RouteQuery, RouteResolved) => answer(solo, Outcome::RouteResolved { route }),
        (Idle, Connect) => return solo.bring(ConnState::ReqRcvd, false).id,
        (Connect, Disconnect) => return solo.bring(ConnState::DreqRcvd, true).id,
        (Connect | Disconnect, RouteResolved) => {
            let state = if from == Connect { ConnState::Idle } else { ConnState::Timewait };
            let it = solo.bring(state, true);
            solo.wait(SECOND);
            solo.cm.reset(it.id).unwrap();
            return it.id;
        }
        (from, to) => panic!("nobody knows how to go from {from} to {to}"),
    }
    id
}

#[test]
fn each_legal_move_of_an_identifier_can_be_made() {
    for &(from, to, why) in id::TRANSITIONS {
        World::new().solo(|mut solo| {
            let _ = solo.listen(7471, 0);
            let id = lead(&mut solo, from, to);
            assert_eq!(solo.cm.state(id), Ok(to), "{from} -> {to}: {why}");
        });
    }
}

/// A diagram and a table of moves.
fn section<S: Display + Copy>(title: &str, words: &str, moves: &[(S, S, &str)]) -> String {
    let mut text = format!("## {title}\n\n{words}\n\n```mermaid\nstateDiagram-v2\n");
    for (from, to, _) in moves {
        let _ = writeln!(text, "    {from} --> {to}");
    }
    text += "```\n\n| from | to | when |\n|---|---|---|\n";
    for (from, to, why) in moves {
        let _ = writeln!(text, "| {from} | {to} | {why} |");
    }
    text
}

fn document() -> String {
    let identifier = section(
        "Machine 1: the identifier",
        "`nanocm_core::State`, librdmacm's view. CONNECT lasts from the REQ until the connection is \
         over, whatever machine 2 goes through meanwhile.",
        id::TRANSITIONS,
    );
    let connection = section(
        "Machine 2: the connection",
        "`nanocm_core::ConnState`, the CM protocol's view. IDLE stands for no connection; one that \
         is destroyed leaves from any state, after a last word that fits it; one whose device is \
         gone, without.",
        conn::TRANSITIONS,
    );
    format!(
        "# States\n\n\
         Made from `core/src/id/state.rs` and `core/src/conn/state.rs` by `core/tests/states.rs`, \
         which also makes each of these moves.\n\n{identifier}\n{connection}"
    )
}

#[test]
fn the_document_shows_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/states.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, document()).expect("docs/ can be written");
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(there == document(), "docs/states.md is out of date: run with UPDATE=1");
}
