//! Datagram services (SIDR): `resolve`, and `listen --space udp`.

use crate::isolated;
use crate::process::*;
use crate::wire::Wire;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const SIDR_REQ: u16 = 0x17;
const SIDR_REP: u16 = 0x18;

#[track_caller]
fn has_fields(event: &Value, wanted: &[&str]) {
    let fields: BTreeSet<_> = event.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, wanted.iter().copied().collect(), "{event}");
    assert!(event["id"].is_u64() && event["time"].is_f64(), "{event}");
}

#[track_caller]
fn has_data(event: &Value, digits: &str, octets: usize) {
    let data = event["private_data"].as_str().unwrap();
    assert_eq!(data, format!("{digits:0<width$}", width = 2 * octets));
}

#[test]
fn a_service_as_both_sides_tell_it() {
    isolated!();
    let (mut listener, local) = listen("127.0.0.2:0 --space udp --count 2 --private-data AAbb");
    let mut qpn = None;
    for _ in 0..2 {
        let client = run(&format!("resolve {local} --json")).with(0);
        assert_eq!((client.names(), client.stderr.as_str()), (vec!["RESOLVED".to_owned()], ""));
        let resolved = &client.events()[0];
        has_fields(
            resolved,
            &["event", "id", "local", "peer", "time", "qpn", "qkey", "ah", "private_data"],
        );
        has_data(resolved, "aabb", 136);
        assert_eq!(
            (resolved["id"].as_u64(), resolved["qkey"].as_u64()),
            (Some(1), Some(0x0123_4567))
        );
        assert_eq!(resolved["peer"], local.to_string());
        let ah = &resolved["ah"];
        assert_eq!(
            (&ah["sgid"], &ah["dgid"]),
            (&"::ffff:127.0.0.1".into(), &"::ffff:127.0.0.2".into())
        );
        assert_eq!((&ah["traffic_class"], &ah["hop_limit"]), (&0.into(), &64.into()));
        assert!(ah["flow_label"].as_u64().unwrap() < 1 << 20, "{ah}");

        let request = listener.event("CONNECT_REQUEST");
        has_fields(&request, &["event", "id", "local", "peer", "time", "listener", "private_data"]);
        has_data(&request, "", 180);
        let answered = listener.event("ANSWERED");
        has_fields(&answered, &["event", "id", "local", "peer", "time", "listener", "qpn", "qkey"]);
        for event in [&request, &answered] {
            assert_eq!((&event["id"], &event["listener"]), (&request["id"], &1.into()));
            assert_eq!((&event["local"], &event["peer"]), (&resolved["peer"], &resolved["local"]));
        }
        for field in ["qpn", "qkey"] {
            assert_eq!(answered[field], resolved[field]);
        }
        // The service has one queue pair, whoever asks.
        let now = resolved["qpn"].as_u64().unwrap();
        assert_eq!(*qpn.get_or_insert(now), now);
    }
    let ended = listener.end().with(0);
    assert_eq!((ended.lines.len(), ended.stderr.as_str()), (5, ""));
}

#[test]
fn a_rejection_has_its_status() {
    isolated!();
    // SIDR has fewer words than REJ.
    for (argument, status) in [("no-qp", 3), ("1", 3), ("consumer", 2), ("35", 2)] {
        let (mut listener, local) = listen(&format!(
            "127.0.0.2:7471 --space udp --count 1 --reject {argument} --private-data c0ffee"
        ));
        let client = run(&format!("resolve {local} --json"));
        assert_eq!(client.names(), ["REJECTED", "ERROR"]);
        let rejected = &client.events()[0];
        has_fields(
            rejected,
            &["event", "id", "local", "peer", "time", "reason", "reason_text", "private_data"],
        );
        assert_eq!(rejected["reason"], status);
        has_data(rejected, "c0ffee", 136);
        let error = client.failed("ECONNREFUSED", "rejected");
        assert_eq!((&error["errno"], &error["peer"]), (&111.into(), &local.to_string().into()));
        let text = error["message"].as_str().unwrap();
        assert!(text.contains(&format!("rejected with status {status}: ")), "{text}");

        listener.event("CONNECT_REQUEST");
        let ours = listener.event("REJECTED");
        has_fields(
            &ours,
            &["event", "id", "local", "peer", "time", "listener", "reason", "reason_text"],
        );
        assert_eq!(
            (&ours["reason"], &ours["reason_text"]),
            (&status.into(), &rejected["reason_text"])
        );
        assert_eq!(listener.end().with(0).lines.len(), 3);
    }
}

/// Ports of one space say nothing of the other.
#[test]
fn a_port_without_service_is_said_in_words() {
    isolated!();
    let (_datagrams, _) = listen("127.0.0.2:7471 --space udp");
    let (_connections, _) = listen("127.0.0.3:7471");
    for address in ["127.0.0.2:7472", "127.0.0.3:7471"] {
        let client = run(&format!("resolve {address} --json"));
        assert_eq!(client.events()[0]["reason"], 1);
        let error = client.failed("ECONNREFUSED", "rejected");
        let text = error["message"].as_str().unwrap();
        assert!(text.contains("nothing serves that service ID (RDMA udp port 747"), "{text}");
        assert!(error["advice"].as_str().unwrap().contains("datagrams"));
    }
    let error = run("connect 127.0.0.2:7471 --json").failed("ECONNREFUSED", "rejected");
    assert!(error["message"].as_str().unwrap().contains("reason 8"));
}

#[test]
fn a_timeout_is_a_hard_end() {
    isolated!();
    veth();
    let start = Instant::now();
    let client = run("resolve 10.9.0.2:7471 --timeout 700 --json");
    let taken = start.elapsed();
    assert!(taken >= Duration::from_millis(700), "{taken:?}");
    assert!(taken < Duration::from_millis(4000), "{taken:?}");
    assert_eq!(client.names(), ["UNREACHABLE", "ERROR"]);
    has_fields(&client.events()[0], &["event", "id", "local", "peer", "time"]);
    let error = client.failed("ETIMEDOUT", "timeout");
    assert_eq!((&error["errno"], &error["peer"]), (&110.into(), &"10.9.0.2:7471".into()));
    assert!(error["advice"].as_str().unwrap().contains("UDP 4791"));
}

#[test]
fn a_network_that_says_so_ends_it_early() {
    isolated!();
    let client = run("resolve 127.0.0.9:7471 --json");
    assert_eq!(client.names(), ["UNREACHABLE", "ERROR"]);
    client.failed("ETIMEDOUT", "send-failed");
    // Before anybody was asked there is nothing but the error.
    let client = run("resolve 192.0.2.1:7471 --json");
    assert_eq!(client.names(), ["ERROR"]);
    client.failed("ENETUNREACH", "host");
}

/// Its answer may have been lost: the same again, and nothing is told.
#[test]
fn a_repeated_request_gets_the_same_answer() {
    isolated!();
    let (mut listener, local) = listen("127.0.0.2:7471 --space udp");
    let wire = Wire::tap();
    run(&format!("resolve {local} --from 127.0.0.1")).with(0);
    let seen = wire.datagrams();
    let of = |attribute| seen.iter().find(|d| d.attribute == attribute).expect("it was sent");
    listener.event("CONNECT_REQUEST");
    listener.event("ANSWERED");

    let again = UdpSocket::bind("127.0.0.1:4791").unwrap();
    again.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for _ in 0..3 {
        again.send_to(&of(SIDR_REQ).payload, "127.0.0.2:4791").unwrap();
        let mut answer = [0; 512];
        let (length, _) = again.recv_from(&mut answer).expect("an answer");
        // Behind BTH and DETH, with their packet numbers, and before the ICRC.
        let mad = 20..20 + 256;
        assert_eq!(answer[..length][mad.clone()], of(SIDR_REP).payload[mad]);
    }
    listener.silent_for(Duration::from_millis(200));
    listener.signal("TERM");
    assert_eq!(listener.end().with(0).lines.len(), 3);
}

/// A listener that does not get to run for a while.
#[test]
fn a_request_is_repeated_after_four_seconds() {
    isolated!();
    let (mut listener, local) = listen("127.0.0.2:7471 --space udp");
    listener.signal("STOP");
    let begin = Instant::now();
    let wire = Wire::tap();
    let client = start(&format!("resolve {local}"));
    std::thread::sleep(Duration::from_millis(4300));
    listener.signal("CONT");
    client.end().with(0);
    assert!(begin.elapsed() < Duration::from_secs(12));
    let questions = wire.datagrams().iter().filter(|d| d.attribute == SIDR_REQ).count();
    assert_eq!(questions, 2 * 2, "each is seen as it leaves and as it arrives");
    listener.event("CONNECT_REQUEST");
    listener.event("ANSWERED");
    listener.silent_for(Duration::from_millis(200));
}

/// Four programs, each with an address of its own.
#[test]
fn connections_and_datagrams_side_by_side() {
    isolated!();
    let (connections, to_connect) = listen("127.0.0.2:7471 --count 5");
    let (datagrams, to_resolve) = listen("127.0.0.3:7471 --space udp --count 5");
    for _ in 0..5 {
        let client = start(&format!("connect {to_connect} --json"));
        let asking = start(&format!("resolve {to_resolve} --from 127.0.0.4 --json"));
        assert_eq!(client.end().with(0).names(), ["ESTABLISHED", "DISCONNECTED"]);
        assert_eq!(asking.end().with(0).names(), ["RESOLVED"]);
    }
    connections.end().with(0);
    let ended = datagrams.end().with(0);
    assert_eq!(ended.names().iter().filter(|name| *name == "ANSWERED").count(), 5);
}

#[test]
fn a_service_in_another_namespace() {
    isolated!();
    veth();
    let neighbour = Neighbour::new();
    let mut listener = neighbour.start("listen [fe80::b%right]:7471 --space udp --json --count 1");
    listener.event("LISTENING");
    let client = run("resolve [fe80::b%left]:7471 --json").with(0);
    let resolved = &client.events()[0];
    assert!(resolved["local"].as_str().unwrap().starts_with("[fe80::a"), "{resolved}");
    assert_eq!(resolved["ah"]["dgid"], "fe80::b");
    listener.end().with(0);

    // The wildcard, and the neighbour asks.
    let (listener, _) = listen("0.0.0.0:7471 --space udp --count 1");
    let client = neighbour.start("resolve 10.9.0.1:7471 --json").end().with(0);
    assert_eq!(client.names(), ["RESOLVED"]);
    listener.end().with(0);
}

#[test]
fn sources_are_those_of_connect() {
    isolated!();
    let (_listener, local) = listen("127.0.0.1:7471 --space udp");
    // The route's address is taken: the next one.
    let client = run(&format!("resolve {local} --json")).with(0);
    assert!(client.events()[0]["local"].as_str().unwrap().starts_with("127.0.0.2:"));
    let client = run(&format!("resolve {local} --from 127.0.0.7:5555 --json")).with(0);
    assert_eq!(client.events()[0]["local"], "127.0.0.7:5555");
    run(&format!("resolve {local} --from 127.0.0.1 --json")).failed("EADDRINUSE", "held");
    run(&format!("resolve {local} --from 192.0.2.9 --json")).failed("EADDRNOTAVAIL", "not-local");
}

#[test]
fn without_json_there_are_sentences() {
    isolated!();
    let mut listener = start("listen 127.0.0.2:7471 --space udp");
    assert_eq!(listener.line(), "listening for datagrams on 127.0.0.2:7471");
    let client = run("resolve 127.0.0.2:7471 --from 127.0.0.1:4000").with(0);
    let [found] = &client.lines[..] else { panic!("{:?}", client.lines) };
    let pair = found.strip_prefix("127.0.0.2:7471 is ").expect(found);
    assert!(pair.starts_with("QPN 0x") && pair.ends_with(" with Q_Key 0x01234567"), "{found}");
    assert_eq!(listener.line(), "127.0.0.1:4000 asks for 127.0.0.2:7471");
    assert_eq!(listener.line(), format!("answered 127.0.0.1:4000: {pair}"));
    let ended = run("resolve 127.0.0.2:7472 --from 127.0.0.1:4000").with(1);
    let refused =
        "127.0.0.2:7472 rejected 127.0.0.1:4000: nothing serves that service ID (status 1)";
    assert_eq!(ended.lines, [refused]);
    assert_eq!(
        ended.stderr,
        "nanocm: resolve 127.0.0.1:4000 -> 127.0.0.2:7472: rejected with status 1: nothing serves \
         that service ID (RDMA udp port 7472): start a listener for datagrams on that port, or ask \
         for the port of one\n"
    );
}
