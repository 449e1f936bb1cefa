//! Hazards that other connection managers fell into (facts: linux-rdma-cm §7) and that no other test
//! here shows: each by its number. `docs/hazards.md` has them all, and is checked here.

use nanocm_core::addr::{RocePath, ScopedIp};
use nanocm_core::testing::{Solo, World, comm_id};
use nanocm_core::wire::{MessageKind, Req};
use nanocm_core::{
    ConnParam, ConnState::*, Disposition, EventKind, Id, Outcome, Path, PortEvent, PortSpace,
    Route, SendToken, State,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path as File, PathBuf};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn add_address(solo: &mut Solo<'_>, text: &str, ca_guid: u64) {
    let address = ScopedIp::of(addr(text));
    assert!(solo.cm.handle_port_event(solo.now, PortEvent::GidAdded { address, ca_guid }));
}

fn answer(solo: &mut Solo<'_>, outcome: Outcome) {
    let (request, _) = solo.cm.poll_request().unwrap();
    solo.cm.handle_completion(solo.now, request, outcome).unwrap();
}

/// A request for port 9000 at this address of ours.
fn asked_at(solo: &mut Solo<'_>, address: &str) -> Disposition {
    let (peer, local) = (solo.peer(), addr(address).ip());
    let path = Path::Roce(RocePath::new(local.into(), peer.ip.into()));
    solo.cm.handle_datagram(solo.now, &path, &peer.req(local, 9000))
}

#[test]
fn d10_a_failure_to_send_what_was_superseded_concerns_nobody() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ReqSent, true);
        let late = SendToken::from_raw(u64::from(it.comm_id) << 32 | 0x10);
        solo.wait(31 * SECOND);
        solo.tells(&["UNREACHABLE"]);
        solo.cm.reset(it.id).unwrap();
        while solo.cm.poll_transmit(solo.now, &mut [0; 256]).is_some() {}
        solo.connect(it.id);
        let req = solo.says(&["REQ"])[0];
        assert_ne!(comm_id(&req), it.comm_id);
        // Two in a row of its own, with a repetition of the REQ between them, end the attempt.
        let own = SendToken::of(&req);
        for (token, pause) in [(late, 1), (late, 2), (own, 4), (own, 0)] {
            solo.tells(&[]);
            solo.cm.handle_send_failed(solo.now, token, 101);
            solo.wait(pause * SECOND);
            while solo.cm.poll_transmit(solo.now, &mut [0; 256]).is_some() {}
        }
        solo.tells(&["UNREACHABLE"]);
        assert_eq!(solo.cm.counters().send_failed, 4);
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn d12_a_dreq_ends_the_repetition_of_a_rep_whatever_patience_was_asked_for() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(RepSent, false);
        let mra = it.peer.mra(it.comm_id, MessageKind::REP, 20);
        assert_eq!(solo.hears(&it.peer, &mra), Disposition::Accepted);
        let _ = solo.hears(&it.peer, &it.peer.dreq(it.comm_id, it.qpn));
        solo.tells(&["DISCONNECTED"]);
        assert_eq!(solo.cm.poll_at(), None, "nothing to wait for");
        solo.wait(100 * SECOND);
        solo.says(&[]);
        solo.cm.destroy(solo.now, it.id).unwrap();
        solo.says(&["DREP"]);
        assert_eq!(solo.cm.in_use(), (1, 0));
        solo.assert_clean(&[listener]);
    });
}

#[test]
fn s4_a_bound_identifier_goes_where_it_was_sent_last() {
    World::new().solo(|mut solo| {
        let (now, id) = (solo.now, solo.cm.create_id(PortSpace::Tcp, 0).unwrap());
        solo.cm.bind(id, SocketAddr::new(solo.ip, 5000)).unwrap();
        for to in ["10.0.0.7:7", "10.0.0.8:8"] {
            solo.cm.resolve_addr(now, id, None, addr(to), SECOND).unwrap();
            answer(&mut solo, Outcome::Failed(113));
            solo.tells(&["ADDR_ERROR"]);
        }
        let to = addr("10.0.0.9:9");
        let path = Path::Roce(RocePath::new(solo.ip.into(), to.ip().into()));
        solo.cm.resolve_addr(now, id, None, to, SECOND).unwrap();
        answer(&mut solo, Outcome::AddrResolved { path });
        // S7: a route that could not be found leaves nothing of itself to the next one.
        for _ in 0..3 {
            solo.cm.resolve_route(now, id, SECOND).unwrap();
            answer(&mut solo, Outcome::Failed(113));
        }
        solo.cm.resolve_route(now, id, SECOND).unwrap();
        answer(&mut solo, Outcome::RouteResolved { route: Route::new(path) });
        solo.tells(&["ADDR_RESOLVED", "ROUTE_RESOLVED"]);
        assert_eq!(solo.cm.peer_addr(id), Ok(to));
        solo.connect(id);
        let req = solo.says(&["REQ"])[0];
        let header = Req(&req).ip_cm().unwrap();
        assert_eq!((header.destination, header.source_port), (to.ip().into(), 5000));
        assert_eq!(Req(&req).service_id().to_port(), Some((PortSpace::Tcp, 9)));
        assert_eq!(solo.cm.in_use(), (1, 1));
        solo.assert_clean(&[id]);
    });
}

#[test]
fn p11_a_wildcard_listens_at_addresses_that_come_later() {
    World::new().solo(|mut solo| {
        let listener = solo.cm.create_id(PortSpace::Tcp, 0).unwrap();
        solo.cm.bind(listener, addr("0.0.0.0:9000")).unwrap();
        solo.cm.listen(listener, 0).unwrap();
        assert_eq!(asked_at(&mut solo, "10.0.0.9:0"), Disposition::Accepted);
        solo.says(&["REJ"]);
        solo.tells(&[]);
        add_address(&mut solo, "10.0.0.9:0", 9);
        assert_eq!(asked_at(&mut solo, "10.0.0.9:0"), Disposition::Accepted);
        let told = solo.tells(&["CONNECT_REQUEST"])[0];
        assert!(
            matches!(told.kind, EventKind::ConnectRequest { listener: l, .. } if l == listener)
        );
        assert_eq!(solo.cm.local_addr(told.id), Ok(addr("10.0.0.9:9000")));
        solo.assert_clean(&[listener, told.id]);
    });
}

#[test]
fn a2_a_gap_in_the_address_table_hides_nothing_behind_it() {
    World::new().solo(|mut solo| {
        for last in 3..9 {
            add_address(&mut solo, &format!("10.0.0.{last}:0"), last);
        }
        for last in [3, 5, 6] {
            let address = ScopedIp::of(addr(&format!("10.0.0.{last}:0")));
            assert!(solo.cm.handle_port_event(solo.now, PortEvent::GidRemoved { address }));
        }
        for (last, there) in [(3, false), (4, true), (5, false), (6, false), (7, true), (8, true)] {
            let id = solo.cm.create_id(PortSpace::Tcp, 0).unwrap();
            let bound = solo.cm.bind(id, addr(&format!("10.0.0.{last}:0")));
            assert_eq!(bound.is_ok(), there, "10.0.0.{last}");
            solo.cm.destroy(solo.now, id).unwrap();
        }
        solo.assert_clean(&[]);
    });
}

#[test]
fn a4_two_addresses_of_one_host_connect_to_each_other() {
    World::new().solo(|mut solo| {
        let (one, two) = (solo.ip, addr("10.0.0.9:0").ip());
        add_address(&mut solo, "10.0.0.9:0", 9);
        let listener = solo.listen(7471, 0);
        let to = SocketAddr::new(one, 7471);
        let paths = [(two, one), (one, two)].map(|(a, b)| RocePath::new(a.into(), b.into()));
        let [away, back] = paths.map(Path::Roce);
        let active = solo.cm.create_id(PortSpace::Tcp, 0).unwrap();
        solo.cm.set_route(solo.now, active, to, &Route::new(away)).unwrap();
        solo.connect(active);
        let deliver = |solo: &mut Solo<'_>, path, message| {
            let mad = solo.says(&[message])[0];
            let taken = solo.cm.handle_datagram(solo.now, &path, &mad);
            assert_eq!(taken, Disposition::Accepted, "{message}");
        };
        deliver(&mut solo, back, "REQ");
        let passive = solo.tells(&["CONNECT_REQUEST"])[0].id;
        let param = ConnParam::new(0x99);
        solo.cm.accept(solo.now, passive, &param).unwrap();
        deliver(&mut solo, away, "REP");
        solo.tells(&["CONNECT_RESPONSE"]);
        solo.cm.establish(solo.now, active, &[]).unwrap();
        deliver(&mut solo, back, "RTU");
        solo.tells(&["ESTABLISHED", "ESTABLISHED"]);
        let ids: [Id; 3] = [listener, active, passive];
        assert!(ids.iter().all(|&id| solo.cm.state(id) != Ok(State::Disconnect)));
        while let Ok(Some(_)) = solo.cm.destroy(solo.now, listener) {}
        solo.assert_clean(&[active, passive]);
    });
}

/// Every test in the repository: its name, and the files that have one of that name.
fn tests_in(folder: &File, found: &mut BTreeMap<String, Vec<PathBuf>>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            tests_in(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&entry).unwrap();
            for part in text.split("#[test]\n").skip(1) {
                let name = part.split("fn ").nth(1).and_then(|rest| rest.split('(').next());
                found.entry(name.unwrap().to_owned()).or_default().push(entry.clone());
            }
        }
    }
}

/// The tests that a text names, as `place::name`, the place a file or folder: each must exist.
fn check_names(file: &str, text: &str, tests: &BTreeMap<String, Vec<PathBuf>>) {
    let mut named = 0;
    for word in text.split('`').skip(1).step_by(2) {
        let Some((place, name)) = word.split_once("::").filter(|(_, name)| name.contains('_'))
        else {
            continue;
        };
        let files = tests.get(name).unwrap_or_else(|| panic!("{file}: there is no test {name}"));
        let there = |path: &PathBuf| {
            path.with_extension("").components().any(|part| part.as_os_str() == place)
        };
        assert!(files.iter().any(there), "{file}: {name} is in {files:?}, not in {place}");
        named += 1;
    }
    assert!(named > 40, "{file} names {named} tests only");
}

#[test]
fn every_hazard_and_report_has_its_line_and_the_tests_it_names() {
    let root = File::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut tests = BTreeMap::new();
    for folder in ["core/src", "core/tests", "std-shell/src", "std-shell/tests", "ffi"] {
        tests_in(&root.join(folder), &mut tests);
    }
    let hazards = std::fs::read_to_string(root.join("docs/hazards.md")).unwrap();
    check_names("docs/hazards.md", &hazards, &tests);
    for (class, last) in [("D", 20), ("S", 14), ("P", 12), ("E", 12), ("A", 14)] {
        for n in 1..=last {
            let rows = hazards.matches(&format!("\n| {class}{n} |")).count();
            assert_eq!(rows, 1, "{class}{n}");
        }
    }
    let reports = include_str!("reports/main.rs");
    check_names("core/tests/reports/main.rs", reports, &tests);
    for (class, numbers) in REPORTS {
        for n in *numbers {
            let rows = reports.matches(&format!("\n//! | {class}{n} |")).count();
            assert_eq!(rows, 1, "{class}{n}");
            let prefix = format!("{}{n}_", class.to_lowercase());
            assert!(tests.keys().any(|name| name.starts_with(&prefix)), "no test of {class}{n}");
        }
    }
}

/// The reports this engine answers for.
const REPORTS: &[(&str, &[u32])] = &[
    ("B", &[1, 2, 3, 4]),
    ("C", &[1, 2, 3, 4, 5, 6]),
    ("D", &[1, 2, 3, 4, 5, 7]),
    ("F", &[1, 2, 3]),
    ("G", &[1, 2, 3, 4, 5, 6, 7, 10]),
    ("H", &[1, 2, 3, 4]),
    ("I", &[1, 5, 6, 7]),
    ("J", &[1]),
    ("K", &[1, 2, 3, 4]),
];
