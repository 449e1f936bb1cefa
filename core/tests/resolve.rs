//! From an address to a route: what is asked of the host, what its answers lead to, and what an
//! identifier is bound to on the way.

use nanocm_core::addr::{RocePath, ScopedIp};
use nanocm_core::error::{BindError, ResolveError, Stale, errno::*};
use nanocm_core::testing::{Capacity, Solo, World};
use nanocm_core::wire::Req;
use nanocm_core::{
    ConnParam, EventKind, Gid, Id, IdOption, Outcome, Path, PortEvent, PortSpace, Request,
    RequestId, Route, State,
};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn scoped(text: &str) -> ScopedIp {
    ScopedIp::of(addr(text))
}

/// A path between two addresses; scope as in the first.
fn path(from: &str, to: &str) -> Path {
    let (from, to) = (scoped(from), scoped(to));
    let mut path = RocePath::new(from.gid, to.gid);
    path.scope = from.scope;
    Path::Roce(path)
}

/// An engine with these addresses besides 10.0.0.2.
fn with_addresses(addresses: &[&str], test: impl Fn(Solo<'_>)) {
    World::new().of(Capacity { gids: 8, ..Capacity::of(4) }).solo(|mut solo| {
        for (n, address) in addresses.iter().enumerate() {
            let address = scoped(address);
            let event = PortEvent::GidAdded { address, ca_guid: n as u64 };
            assert!(solo.cm.handle_port_event(solo.now, event));
        }
        test(solo);
    });
}

fn idle(solo: &mut Solo<'_>) -> Id {
    solo.cm.create_id(PortSpace::Tcp, 0).unwrap()
}

fn resolve(solo: &mut Solo<'_>, id: Id, from: Option<&str>, to: &str) -> Result<(), ResolveError> {
    solo.cm.resolve_addr(solo.now, id, from.map(addr), addr(to), SECOND)
}

/// The one question that is open.
#[track_caller]
fn question(solo: &mut Solo<'_>) -> (RequestId, Request) {
    let question = solo.cm.poll_request().expect("a question");
    assert_eq!(solo.cm.poll_request(), None);
    question
}

fn answer(solo: &mut Solo<'_>, request: RequestId, outcome: Outcome) -> Result<(), Stale> {
    solo.cm.handle_completion(solo.now, request, outcome)
}

fn found(from: &str, to: &str) -> Outcome {
    Outcome::AddrResolved { path: path(from, to) }
}

/// An identifier whose address is resolved from 10.0.0.2 to 10.0.0.1:7471.
fn resolved(solo: &mut Solo<'_>) -> Id {
    let id = idle(solo);
    resolve(solo, id, None, "10.0.0.1:7471").unwrap();
    let (request, _) = question(solo);
    answer(solo, request, found("10.0.0.2:0", "10.0.0.1:0")).unwrap();
    solo.tells(&["ADDR_RESOLVED"]);
    id
}

#[test]
fn two_questions_lead_to_a_connection() {
    World::new().solo(|mut solo| {
        let id = idle(&mut solo);
        resolve(&mut solo, id, None, "10.0.0.1:7471").unwrap();
        assert_eq!(solo.cm.state(id), Ok(State::AddrQuery));
        let (request, asked) = question(&mut solo);
        let destination = addr("10.0.0.1:7471");
        assert_eq!(asked, Request::ResolveAddr { source: None, destination });
        answer(&mut solo, request, found("10.0.0.2:0", "10.0.0.1:0")).unwrap();
        solo.tells(&["ADDR_RESOLVED"]);
        let local = solo.cm.local_addr(id).unwrap();
        assert_eq!(local.ip(), addr("10.0.0.2:0").ip());
        assert!((32768..=60999).contains(&local.port()), "bound on the way");
        solo.cm.resolve_route(solo.now, id, SECOND).unwrap();
        assert_eq!(solo.cm.state(id), Ok(State::RouteQuery));
        let (request, asked) = question(&mut solo);
        let path = path("10.0.0.2:0", "10.0.0.1:0");
        assert_eq!(asked, Request::ResolveRoute { path });
        let mut route = Route::new(path);
        (route.mtu, route.packet_lifetime) = (5, 14);
        answer(&mut solo, request, Outcome::RouteResolved { route }).unwrap();
        solo.tells(&["ROUTE_RESOLVED"]);
        solo.wait(Duration::from_secs(60));
        solo.tells(&[]);
        solo.connect(id);
        let req = solo.says(&["REQ"])[0];
        assert_eq!((Req(&req).path_mtu(), Req(&req).primary_local_ack_timeout()), (5, 16));
        solo.assert_clean(&[id]);
    });
}

#[test]
fn a_failed_address_query_leaves_the_identifier_as_it_was() {
    // (bound to, source asked for, state before)
    let cases = [
        (None, None, State::Idle),
        (None, Some("10.0.0.2:0"), State::Idle),
        (None, Some("10.0.0.2:5000"), State::Idle),
        (None, Some("0.0.0.0:5000"), State::Idle),
        (Some("10.0.0.2:5000"), None, State::AddrBound),
        (Some("0.0.0.0:0"), None, State::AddrBound),
    ];
    for (bound, source, before) in cases {
        World::new().solo(|mut solo| {
            let id = idle(&mut solo);
            if let Some(bound) = bound {
                solo.cm.bind(id, addr(bound)).unwrap();
            }
            let ends = |solo: &Solo<'_>| (solo.cm.local_addr(id), solo.cm.peer_addr(id));
            let (was, used) = (ends(&solo), solo.cm.in_use());
            resolve(&mut solo, id, source, "10.0.0.1:7471").unwrap();
            let (request, _) = question(&mut solo);
            answer(&mut solo, request, Outcome::Failed(113)).unwrap();
            assert_eq!(solo.tells(&["ADDR_ERROR"])[0].kind, EventKind::AddrError(113));
            assert_eq!(solo.cm.state(id), Ok(before));
            assert_eq!((ends(&solo), solo.cm.in_use()), (was, used), "{bound:?} {source:?}");
            assert_eq!(solo.cm.poll_at(), None);
            // It may go elsewhere now.
            resolve(&mut solo, id, source, "10.0.0.77:99").unwrap();
            let (request, _) = question(&mut solo);
            answer(&mut solo, request, found("10.0.0.2:0", "10.0.0.77:0")).unwrap();
            solo.tells(&["ADDR_RESOLVED"]);
            assert_eq!(solo.cm.peer_addr(id), Ok(addr("10.0.0.77:99")));
            solo.assert_clean(&[id]);
        });
    }
}

#[test]
fn a_port_that_was_bound_after_a_failed_query_survives_the_next() {
    World::new().solo(|mut solo| {
        let id = idle(&mut solo);
        for bound in [State::Idle, State::AddrBound] {
            let source = (bound == State::Idle).then_some("10.0.0.2:4000");
            resolve(&mut solo, id, source, "10.0.0.1:7471").unwrap();
            solo.wait(2 * SECOND);
            solo.tells(&["ADDR_ERROR"]);
            assert_eq!(solo.cm.state(id), Ok(bound));
            if bound == State::Idle {
                assert_eq!(solo.cm.bind(id, addr("10.0.0.2:5000")), Ok(5000));
            }
        }
        assert_eq!(solo.cm.local_addr(id), Ok(addr("10.0.0.2:5000")));
        solo.assert_clean(&[id]);
    });
}

#[test]
fn a_question_that_is_not_answered_in_time_has_failed() {
    for asked in [true, false] {
        World::new().solo(|mut solo| {
            let id = idle(&mut solo);
            resolve(&mut solo, id, None, "10.0.0.1:7471").unwrap();
            let request = asked.then(|| question(&mut solo).0);
            solo.wait(SECOND - Duration::from_millis(1));
            solo.tells(&[]);
            solo.wait(Duration::from_millis(2));
            assert_eq!(solo.tells(&["ADDR_ERROR"])[0].kind, EventKind::AddrError(ETIMEDOUT));
            assert_eq!(solo.cm.poll_request(), None);
            if let Some(request) = request {
                let late = answer(&mut solo, request, found("10.0.0.2:0", "10.0.0.1:0"));
                assert_eq!(late, Err(Stale));
            }
            assert_eq!(solo.cm.state(id), Ok(State::Idle));
            let id = resolved(&mut solo);
            solo.cm.resolve_route(solo.now, id, SECOND).unwrap();
            let request = asked.then(|| question(&mut solo).0);
            solo.wait(SECOND + Duration::from_millis(1));
            assert_eq!(solo.tells(&["ROUTE_ERROR"])[0].kind, EventKind::RouteError(ETIMEDOUT));
            assert_eq!(solo.cm.state(id), Ok(State::AddrResolved));
            assert_eq!(solo.cm.poll_request(), None, "nobody asks any more");
            if let Some(request) = request {
                let route = Route::new(path("10.0.0.2:0", "10.0.0.1:0"));
                let late = answer(&mut solo, request, Outcome::RouteResolved { route });
                assert_eq!(late, Err(Stale));
            }
            // Once more, with better luck.
            solo.cm.resolve_route(solo.now, id, SECOND).unwrap();
            let (request, _) = question(&mut solo);
            let route = Route::new(path("10.0.0.2:0", "10.0.0.1:0"));
            answer(&mut solo, request, Outcome::RouteResolved { route }).unwrap();
            solo.tells(&["ROUTE_RESOLVED"]);
            solo.cm.destroy(solo.now, id).unwrap();
            assert!(solo.cm.poll_request().is_none());
        });
    }
}

#[test]
fn an_answer_counts_once_and_only_for_its_question() {
    World::new().solo(|mut solo| {
        let id = idle(&mut solo);
        let found = found("10.0.0.2:0", "10.0.0.1:0");
        let route = Route::new(path("10.0.0.2:0", "10.0.0.1:0"));
        let route = Outcome::RouteResolved { route };
        resolve(&mut solo, id, None, "10.0.0.1:7471").unwrap();
        let (first, _) = question(&mut solo);
        let untouched = format!("{:?}", solo.cm);
        assert_eq!(answer(&mut solo, first, route), Err(Stale), "that was not the question");
        assert_eq!(format!("{:?}", solo.cm), untouched);
        answer(&mut solo, first, found).unwrap();
        assert_eq!(answer(&mut solo, first, found), Err(Stale));
        assert_eq!(answer(&mut solo, first, Outcome::Failed(1)), Err(Stale));
        solo.cm.resolve_route(solo.now, id, SECOND).unwrap();
        let (second, _) = question(&mut solo);
        assert_eq!(answer(&mut solo, first, route), Err(Stale));
        assert_eq!(answer(&mut solo, first, Outcome::Failed(1)), Err(Stale));
        solo.cm.destroy(solo.now, id).unwrap();
        assert_eq!(answer(&mut solo, second, route), Err(Stale));
        // The slot has another identifier now.
        let other = idle(&mut solo);
        resolve(&mut solo, other, None, "10.0.0.1:7471").unwrap();
        assert_eq!(answer(&mut solo, second, route), Err(Stale));
        solo.assert_clean(&[other]);
    });
}

#[test]
fn a_host_that_answers_with_a_foreign_source_has_failed() {
    with_addresses(&["10.0.0.3:0", "[fd00::2]:0"], |mut solo| {
        let id = idle(&mut solo);
        for (bound, from, errno) in [
            (None, "10.0.0.9:0", ENODEV),
            (Some("10.0.0.2:0"), "10.0.0.9:0", ENODEV),
            (Some("10.0.0.2:0"), "10.0.0.3:0", EADDRNOTAVAIL),
            (None, "[fd00::2]:0", EADDRNOTAVAIL),
        ] {
            resolve(&mut solo, id, bound, "10.0.0.1:7471").unwrap();
            let (request, _) = question(&mut solo);
            answer(&mut solo, request, found(from, "10.0.0.1:0")).unwrap();
            assert_eq!(solo.tells(&["ADDR_ERROR"])[0].kind, EventKind::AddrError(errno));
        }
        let id = resolved(&mut solo);
        for (from, errno) in [("10.0.0.9:0", ENODEV), ("10.0.0.3:0", EADDRNOTAVAIL)] {
            solo.cm.resolve_route(solo.now, id, SECOND).unwrap();
            let (request, _) = question(&mut solo);
            let route = Route::new(path(from, "10.0.0.1:0"));
            answer(&mut solo, request, Outcome::RouteResolved { route }).unwrap();
            assert_eq!(solo.tells(&["ROUTE_ERROR"])[0].kind, EventKind::RouteError(errno));
        }
    });
}

#[test]
fn a_wildcard_bind_leaves_the_source_to_the_host() {
    with_addresses(&["10.0.0.3:0"], |mut solo| {
        let id = idle(&mut solo);
        assert_eq!(solo.cm.bind(id, addr("0.0.0.0:5000")), Ok(5000));
        resolve(&mut solo, id, Some("10.0.0.2:1"), "10.0.0.1:7471").unwrap();
        let (request, asked) = question(&mut solo);
        let Request::ResolveAddr { source, .. } = asked else { panic!("{asked:?}") };
        assert_eq!(source, None, "bound already: the source asked for is ignored");
        answer(&mut solo, request, found("10.0.0.3:0", "10.0.0.1:0")).unwrap();
        assert_eq!(solo.cm.local_addr(id), Ok(addr("10.0.0.3:5000")));
        // The port is held on the wildcard all the same, until destroyed.
        let other = idle(&mut solo);
        assert_eq!(solo.cm.bind(other, addr("10.0.0.2:5000")), Err(BindError::PortInUse));
        let key = solo.cm.destroy(solo.now, id).unwrap().expect("its last owner left");
        assert_eq!((key.local.gid, key.port), (Gid::V4_WILDCARD, 5000));
        assert_eq!(solo.cm.bind(other, addr("10.0.0.2:5000")), Ok(5000));
        solo.tells(&[]);
        solo.assert_clean(&[other]);
    });
}

#[test]
fn a_source_must_be_ours() {
    with_addresses(&["[fe80::1%3]:0"], |mut solo| {
        let id = idle(&mut solo);
        let untouched = format!("{:?}", solo.cm);
        for (source, to, error) in [
            ("10.0.0.9:0", "10.0.0.1:7471", BindError::AddrNotLocal),
            ("[fe80::1]:0", "[fe80::2%3]:7471", BindError::ScopeMissing),
            ("[fe80::1%4]:0", "[fe80::2%4]:7471", BindError::AddrNotLocal),
        ] {
            let refused = resolve(&mut solo, id, Some(source), to);
            assert_eq!(refused, Err(ResolveError::Bind { error }), "{source}");
        }
        assert_eq!(format!("{:?}", solo.cm), untouched);
        solo.assert_clean(&[id]);
    });
}

#[test]
fn an_error_that_nobody_has_heard_is_old_news_when_the_next_question_is_asked() {
    World::new().solo(|mut solo| {
        let id = idle(&mut solo);
        resolve(&mut solo, id, None, "10.0.0.1:7471").unwrap();
        solo.wait(2 * SECOND);
        resolve(&mut solo, id, None, "10.0.0.1:7471").unwrap();
        solo.tells(&[]);
        let (request, _) = question(&mut solo);
        answer(&mut solo, request, found("10.0.0.2:0", "10.0.0.1:0")).unwrap();
        solo.cm.resolve_route(solo.now, id, SECOND).unwrap();
        solo.wait(2 * SECOND);
        solo.cm.resolve_route(solo.now, id, SECOND).unwrap();
        solo.tells(&["ADDR_RESOLVED"]);
        solo.assert_clean(&[id]);
    });
}

#[test]
fn a_wildcard_may_leave_from_a_link_local_address() {
    with_addresses(&["[fe80::1%3]:0"], |mut solo| {
        let id = idle(&mut solo);
        solo.cm.bind(id, addr("[::]:5000")).unwrap();
        resolve(&mut solo, id, None, "[fd00::9]:7471").unwrap();
        let (request, _) = question(&mut solo);
        answer(&mut solo, request, found("[fe80::1%3]:0", "[fd00::9]:0")).unwrap();
        solo.tells(&["ADDR_RESOLVED"]);
        assert_eq!(solo.cm.local_addr(id), Ok(addr("[fe80::1%3]:5000")));
        let key = solo.cm.destroy(solo.now, id).unwrap().unwrap();
        assert_eq!(key.local, scoped("[::]:0"));
        solo.assert_clean(&[]);
    });
}

#[test]
fn a_specific_bind_is_the_source_asked_for() {
    with_addresses(&["10.0.0.3:0"], |mut solo| {
        let id = idle(&mut solo);
        solo.cm.bind(id, addr("10.0.0.3:0")).unwrap();
        resolve(&mut solo, id, None, "10.0.0.1:7471").unwrap();
        let (_, asked) = question(&mut solo);
        let Request::ResolveAddr { source, .. } = asked else { panic!("{asked:?}") };
        assert_eq!(source, Some(scoped("10.0.0.3:0")));
        solo.assert_clean(&[id]);
    });
}

#[test]
fn a_port_for_a_destination_is_shared_with_other_destinations_only() {
    World::new().solo(|mut solo| {
        let mut ids = [idle(&mut solo), idle(&mut solo), idle(&mut solo)];
        let source = Some("10.0.0.2:5000");
        resolve(&mut solo, ids[0], source, "10.0.0.1:7471").unwrap();
        resolve(&mut solo, ids[1], source, "10.0.0.1:7472").unwrap();
        let error = BindError::TupleInUse;
        let untouched = format!("{:?}", solo.cm);
        let refused = resolve(&mut solo, ids[2], source, "10.0.0.1:7471");
        assert_eq!(refused, Err(ResolveError::Bind { error }));
        assert_eq!(format!("{:?}", solo.cm), untouched);
        // A query that fails gives its share back.
        solo.wait(2 * SECOND);
        solo.tells(&["ADDR_ERROR", "ADDR_ERROR"]);
        resolve(&mut solo, ids[2], source, "10.0.0.1:7471").unwrap();
        ids.swap(0, 2);
        solo.assert_clean(&ids);
    });
}

#[test]
fn an_identifier_bound_for_one_destination_goes_to_no_other() {
    World::new().solo(|mut solo| {
        let id = idle(&mut solo);
        let (local, remote) = (addr("10.0.0.2:0"), addr("10.0.0.1:7471"));
        let key = solo.cm.propose_port(id, local, Some(remote)).unwrap().key();
        solo.cm.bind_reserved(id, key, Some(remote)).unwrap();
        for other in ["10.0.0.1:7472", "10.0.0.3:7471"] {
            assert_eq!(resolve(&mut solo, id, None, other), Err(ResolveError::OtherDestination));
        }
        resolve(&mut solo, id, None, "10.0.0.1:7471").unwrap();
        solo.wait(2 * SECOND);
        solo.tells(&["ADDR_ERROR"]);
        assert_eq!(solo.cm.state(id), Ok(State::AddrBound));
        assert_eq!(solo.cm.peer_addr(id), Ok(remote));
        solo.assert_clean(&[id]);
    });
}

#[test]
fn a_route_may_be_given_wherever_one_may_be_asked_for() {
    let bring: [fn(&mut Solo<'_>) -> Id; 4] = [
        idle,
        |solo| {
            let id = idle(solo);
            solo.cm.bind(id, addr("10.0.0.2:0")).unwrap();
            id
        },
        |solo| {
            let id = idle(solo);
            solo.cm.bind(id, addr("0.0.0.0:0")).unwrap();
            id
        },
        resolved,
    ];
    for bring in bring {
        with_addresses(&["10.0.0.3:0", "[fd00::2]:0"], |mut solo| {
            let id = bring(&mut solo);
            let to = addr("10.0.0.1:7471");
            let route = |from, to| Route::new(path(from, to));
            let refusals = [
                (to, route("10.0.0.9:0", "10.0.0.1:0")),
                (addr("10.0.0.1:0"), route("10.0.0.2:0", "10.0.0.1:0")),
                (addr("0.0.0.0:7471"), route("10.0.0.2:0", "10.0.0.1:0")),
                (to, route("[fd00::2]:0", "[fd00::1]:0")),
            ];
            for (to, route) in refusals {
                let untouched = format!("{:?}", solo.cm);
                assert!(solo.cm.set_route(solo.now, id, to, &route).is_err());
                assert_eq!(format!("{:?}", solo.cm), untouched);
            }
            let route = route("10.0.0.2:0", "10.0.0.1:0");
            solo.cm.set_route(solo.now, id, to, &route).unwrap();
            assert_eq!(solo.cm.state(id), Ok(State::RouteResolved));
            assert_eq!(solo.cm.peer_addr(id), Ok(to));
            assert_eq!(solo.cm.local_addr(id).unwrap().ip(), addr("10.0.0.2:0").ip());
            assert_eq!(solo.cm.poll_at(), None);
            solo.tells(&[]);
            solo.connect(id);
            solo.says(&["REQ"]);
            solo.assert_clean(&[id]);
        });
    }
}

#[test]
fn a_route_given_replaces_what_failed() {
    World::new().solo(|mut solo| {
        let id = idle(&mut solo);
        resolve(&mut solo, id, None, "10.0.0.1:7471").unwrap();
        solo.wait(2 * SECOND);
        let route = Route::new(path("10.0.0.2:0", "10.0.0.1:0"));
        solo.cm.set_route(solo.now, id, addr("10.0.0.1:7471"), &route).unwrap();
        solo.tells(&[]);
        solo.assert_clean(&[id]);
    });
}

#[test]
fn a_route_belongs_to_the_source_that_is_bound_and_the_destination_that_was_resolved() {
    with_addresses(&["10.0.0.3:0"], |mut solo| {
        let id = idle(&mut solo);
        solo.cm.bind(id, addr("10.0.0.3:0")).unwrap();
        let route = Route::new(path("10.0.0.2:0", "10.0.0.1:0"));
        let to = addr("10.0.0.1:7471");
        let refused = solo.cm.set_route(solo.now, id, to, &route);
        assert_eq!(refused, Err(ResolveError::OtherSource));
        let resolved = resolved(&mut solo);
        for other in ["10.0.0.1:7472", "10.0.0.4:7471"] {
            let refused = solo.cm.set_route(solo.now, resolved, addr(other), &route);
            assert_eq!(refused, Err(ResolveError::OtherDestination));
        }
        solo.assert_clean(&[id, resolved]);
    });
}

#[test]
fn binding_knows_which_addresses_are_ours() {
    let addresses = ["10.0.0.50:0", "127.0.0.1:0", "[fd00::2]:0", "[fe80::2%3]:0"];
    with_addresses(&addresses, |mut solo| {
        let cases = [
            ("10.0.0.2:9000", Ok(9000)),
            ("10.0.0.50:9000", Ok(9000)),
            ("127.0.0.1:9000", Ok(9000)),
            ("[fd00::2]:9000", Ok(9000)),
            // A scope means nothing for a global address.
            ("[fd00::2%7]:9001", Ok(9001)),
            ("[fe80::2%3]:9000", Ok(9000)),
            ("[fe80::2%4]:9000", Err(BindError::AddrNotLocal)),
            ("[fe80::2]:9000", Err(BindError::ScopeMissing)),
            ("10.0.0.3:9000", Err(BindError::AddrNotLocal)),
            ("0.0.0.0:9002", Ok(9002)),
            ("[::]:9003", Ok(9003)),
        ];
        let mut ids = Vec::new();
        for (local, outcome) in cases {
            let id = match solo.cm.create_id(PortSpace::Tcp, 0) {
                Ok(id) => id,
                Err(_) => {
                    solo.cm.destroy(solo.now, ids.remove(0)).unwrap();
                    idle(&mut solo)
                }
            };
            assert_eq!(solo.cm.bind(id, addr(local)), outcome, "{local}");
            ids.push(id);
        }
        solo.assert_clean(&ids);
    });
}

#[test]
fn an_ipv4_address_in_ipv6_clothes_is_an_ipv4_address() {
    World::new().solo(|mut solo| {
        let id = idle(&mut solo);
        assert_eq!(solo.cm.bind(id, addr("[::ffff:10.0.0.2]:9000")), Ok(9000));
        assert_eq!(solo.cm.local_addr(id), Ok(addr("10.0.0.2:9000")));
        let nowhere = resolve(&mut solo, id, None, "[::ffff:0.0.0.0]:7471");
        assert_eq!(nowhere, Err(ResolveError::NotADestination));
        resolve(&mut solo, id, None, "[::ffff:10.0.0.1]:7471").unwrap();
        let (_, asked) = question(&mut solo);
        let Request::ResolveAddr { destination, .. } = asked else { panic!("{asked:?}") };
        assert_eq!(destination, addr("10.0.0.1:7471"));
        let other = idle(&mut solo);
        let only_v6 = IdOption::AfOnly(true);
        solo.cm.set_option(other, only_v6).unwrap();
        assert_eq!(solo.cm.bind(other, addr("[::]:9000")), Ok(9000));
        let any = idle(&mut solo);
        resolve(&mut solo, any, Some("[::ffff:0.0.0.0]:0"), "10.0.0.1:7471").unwrap();
        assert_eq!(solo.cm.local_addr(any).unwrap().port(), 0, "not bound yet");
        solo.assert_clean(&[id, other, any]);
    });
}

#[test]
fn any_port_is_a_free_one_of_the_range() {
    let world = World::new().set(|config| config.port_range = (40_000, 40_003));
    world.solo(|mut solo| {
        let ids: Vec<_> = (0..4).map(|_| idle(&mut solo)).collect();
        let mut ports: Vec<_> =
            ids.iter().map(|&id| solo.cm.bind(id, addr("10.0.0.2:0")).unwrap()).collect();
        ports.sort();
        assert_eq!(ports, [40_000, 40_001, 40_002, 40_003]);
        let one_more = idle(&mut solo);
        let refused = solo.cm.bind(one_more, addr("10.0.0.2:0"));
        assert_eq!(refused, Err(BindError::PortsExhausted));
        assert_eq!(solo.cm.state(one_more), Ok(State::Idle));
        let key = solo.cm.destroy(solo.now, ids[2]).unwrap().unwrap();
        assert_eq!(solo.cm.bind(one_more, addr("10.0.0.2:0")), Ok(key.port));
        solo.assert_clean(&[ids[0], ids[1], ids[3], one_more]);
    });
}

#[test]
fn link_local_addresses_keep_their_scopes() {
    with_addresses(&["[fe80::1%2]:0", "[fe80::1%3]:0", "[fd00::2]:0"], |mut solo| {
        let cases = [
            // (source, destination, outcome): reports I1.
            (None, "[fe80::2]:7471", Err(ResolveError::Bind { error: BindError::ScopeMissing })),
            (None, "[fe80::2%3]:7471", Ok("[fe80::2%3]:7471")),
            (Some("[fe80::1%3]:0"), "[fe80::2]:7471", Ok("[fe80::2%3]:7471")),
            (Some("[fe80::1%3]:0"), "[fe80::2%3]:7471", Ok("[fe80::2%3]:7471")),
            (Some("[fe80::1%3]:0"), "[fe80::2%2]:7471", Err(ResolveError::ScopeMismatch)),
            (Some("[fe80::1%3]:0"), "[fd00::9]:7471", Ok("[fd00::9]:7471")),
            (Some("[fd00::2]:0"), "[fe80::2%3]:7471", Ok("[fe80::2%3]:7471")),
            (Some("[fd00::2]:0"), "10.0.0.1:7471", Err(ResolveError::FamilyMismatch)),
        ];
        for (source, to, outcome) in cases {
            for bind_first in [false, true] {
                let id = idle(&mut solo);
                if bind_first {
                    solo.cm.bind(id, addr(source.unwrap_or("[::]:0"))).unwrap();
                }
                let done = resolve(&mut solo, id, source, to);
                assert_eq!(done, outcome.map(|_| ()), "{source:?} {to} {bind_first}");
                if let Ok(complete) = outcome {
                    let (request, asked) = question(&mut solo);
                    let from = source.unwrap_or("[fe80::1%3]:0");
                    let Request::ResolveAddr { destination, source: asked } = asked else {
                        panic!("{asked:?}")
                    };
                    assert_eq!(destination, addr(complete));
                    assert_eq!(asked, source.map(scoped));
                    answer(&mut solo, request, found(from, complete)).unwrap();
                    solo.tells(&["ADDR_RESOLVED"]);
                    assert_eq!(solo.cm.peer_addr(id), Ok(addr(complete)));
                    let local = solo.cm.local_addr(id).unwrap();
                    assert_eq!(ScopedIp::of(local), scoped(from));
                }
                solo.cm.destroy(solo.now, id).unwrap();
            }
        }
        solo.assert_clean(&[]);
    });
}

#[test]
fn a_global_source_leaves_the_destination_its_scope() {
    with_addresses(&["[fd00::2]:0"], |mut solo| {
        let id = idle(&mut solo);
        resolve(&mut solo, id, None, "[fe80::9%4]:7471").unwrap();
        let (request, _) = question(&mut solo);
        answer(&mut solo, request, found("[fd00::2]:0", "[fe80::9]:0")).unwrap();
        solo.tells(&["ADDR_RESOLVED"]);
        assert_eq!(solo.cm.peer_addr(id), Ok(addr("[fe80::9%4]:7471")));
        assert_eq!(ScopedIp::of(solo.cm.local_addr(id).unwrap()), scoped("[fd00::2]:0"));
        solo.assert_clean(&[id]);
    });
}

#[test]
fn two_interfaces_with_one_address_have_two_listeners() {
    with_addresses(&["[fe80::1%2]:0", "[fe80::1%3]:0"], |mut solo| {
        // reports A9
        let listen = |solo: &mut Solo<'_>, local| {
            let id = idle(solo);
            solo.cm.bind(id, addr(local)).unwrap();
            solo.cm.listen(id, 0).unwrap();
            id
        };
        let two = listen(&mut solo, "[fe80::1%2]:9000");
        let three = listen(&mut solo, "[fe80::1%3]:9000");
        let busy = idle(&mut solo);
        assert_eq!(solo.cm.bind(busy, addr("[fe80::1%2]:9000")), Err(BindError::PortInUse));
        let mut requests = Vec::new();
        for (scope, listener, guid) in [(3, three, 1), (2, two, 0)] {
            let mut peer = solo.peer();
            peer.ip = "fe80::2".parse().unwrap();
            let ours: IpAddr = "fe80::1".parse().unwrap();
            let mut path = RocePath::new(ours.into(), peer.ip.into());
            path.scope = scope;
            let req = peer.req(ours, 9000);
            let _ = solo.cm.handle_datagram(solo.now, &Path::Roce(path), &req);
            let request = solo.tells(&["CONNECT_REQUEST"])[0];
            let EventKind::ConnectRequest { listener: asked, .. } = request.kind else {
                panic!("{request:?}")
            };
            assert_eq!(asked, listener, "scope {scope}");
            let local = solo.cm.local_addr(request.id).unwrap();
            assert_eq!(local, addr(&format!("[fe80::1%{scope}]:9000")));
            solo.accept(request.id);
            let rep = solo.says(&["REP"])[0];
            assert_eq!(nanocm_core::wire::Rep(&rep).local_ca_guid(), guid);
            requests.push(request.id);
        }
        solo.assert_clean(&[&requests[..], &[two, three, busy]].concat());
    });
}

#[test]
fn a_scope_of_our_own_appears_in_no_global_address() {
    with_addresses(&["[fd00::2]:0"], |mut solo| {
        let id = idle(&mut solo);
        solo.cm.bind(id, addr("[fd00::2]:5000")).unwrap();
        resolve(&mut solo, id, None, "[fe80::9%4]:7471").unwrap();
        assert_eq!(solo.cm.local_addr(id), Ok(addr("[fd00::2]:5000")));
        let key = solo.cm.destroy(solo.now, id).unwrap().expect("the port is given back");
        assert_eq!(key.local, scoped("[fd00::2]:0"));
        solo.assert_clean(&[]);
    });
}

#[test]
fn options_are_legal_where_they_can_still_count() {
    World::new().solo(|mut solo| {
        use IdOption::*;
        type Bring = (State, fn(&mut Solo<'_>) -> Id);
        let states: [Bring; 4] = [
            (State::Idle, idle),
            (State::AddrBound, |solo| {
                let id = idle(solo);
                solo.cm.bind(id, addr("10.0.0.2:0")).unwrap();
                id
            }),
            (State::AddrResolved, resolved),
            (State::Listen, |solo| solo.listen(7471, 0)),
        ];
        for (state, bring) in states {
            let id = bring(&mut solo);
            assert_eq!(solo.cm.state(id), Ok(state));
            for (option, legal) in [
                (Tos(0x20), state != State::Listen),
                (AckTimeout(14), true),
                (ReuseAddr(true), state != State::Listen),
                (ReuseAddr(false), state == State::Idle),
                (AfOnly(true), state == State::Idle),
                (AfOnly(false), state == State::Idle),
                (RejectWhenFull(true), state != State::AddrResolved),
            ] {
                let untouched = format!("{:?}", solo.cm);
                let done = solo.cm.set_option(id, option);
                assert_eq!(done.is_ok(), legal, "{option:?} in {state}");
                if !legal {
                    assert_eq!(format!("{:?}", solo.cm), untouched);
                }
            }
            solo.cm.destroy(solo.now, id).unwrap();
        }
        solo.assert_clean(&[]);
    });
}

#[test]
fn a_port_can_be_shared_by_family_and_by_reuse() {
    with_addresses(&["[fd00::2]:0"], |mut solo| {
        let bound = |solo: &mut Solo<'_>, options: &[IdOption], local| {
            let id = idle(solo);
            for &option in options {
                solo.cm.set_option(id, option).unwrap();
            }
            (id, solo.cm.bind(id, addr(local)))
        };
        use IdOption::*;
        let (v4, done) = bound(&mut solo, &[], "0.0.0.0:9000");
        assert_eq!(done, Ok(9000));
        let (dual, done) = bound(&mut solo, &[], "[::]:9000");
        assert_eq!(done, Err(BindError::PortInUse), "IPv6 takes both families by default");
        let (v6, done) = bound(&mut solo, &[AfOnly(true)], "[::]:9000");
        assert_eq!(done, Ok(9000));
        for id in [v4, dual, v6] {
            solo.cm.destroy(solo.now, id).unwrap();
        }
        let (one, done) = bound(&mut solo, &[ReuseAddr(true)], "10.0.0.2:9000");
        assert_eq!(done, Ok(9000));
        let (two, done) = bound(&mut solo, &[ReuseAddr(true)], "10.0.0.2:9000");
        assert_eq!(done, Ok(9000));
        // reports A6: only a sole owner listens, and then nobody shares.
        assert!(solo.cm.listen(one, 0).is_err());
        solo.cm.destroy(solo.now, two).unwrap();
        solo.cm.listen(one, 0).unwrap();
        let (three, done) = bound(&mut solo, &[ReuseAddr(true)], "10.0.0.2:9000");
        assert_eq!(done, Err(BindError::PortInUse));
        solo.assert_clean(&[one, three]);
    });
}

#[test]
fn addresses_that_come_back_have_the_entry_they_had() {
    World::new().solo(|mut solo| {
        let there = |solo: &mut Solo<'_>, address: &str, ca_guid, added| {
            let address = scoped(address);
            let event = if added {
                PortEvent::GidAdded { address, ca_guid }
            } else {
                PortEvent::GidRemoved { address }
            };
            assert!(solo.cm.handle_port_event(solo.now, event));
        };
        let own = solo.ip.to_string() + ":0";
        let peer = solo.peer();
        let id = solo.route_to(&peer);
        solo.connect(id);
        let before = solo.says(&["REQ"])[0];
        there(&mut solo, &own, 0, false);
        there(&mut solo, "10.0.0.4:0", 4, true);
        solo.wait(SECOND);
        let again = solo.says(&["REQ"])[0];
        assert_eq!(again, before, "an attempt goes on with the GUID it began with");
        there(&mut solo, &own, 9, true);
        let other = solo.route_to(&peer);
        solo.connect(other);
        let req = solo.says(&["REQ"])[0];
        assert_eq!(Req(&req).local_ca_guid(), 9);
        let _ = solo.cm.connect(solo.now, other, &ConnParam::new(1));
        solo.assert_clean(&[id, other]);
    });
}
