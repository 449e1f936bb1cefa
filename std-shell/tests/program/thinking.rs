//! A listener that takes its time: `--accept-after`, `--accept-deadline`.

use crate::isolated;
use crate::process::*;
use crate::wire::{Datagram, Wire};
use serde_json::Value;
use std::time::{Duration, Instant};

const REQ: u16 = 0x10;
const MRA: u16 = 0x11;
const REJ: u16 = 0x12;

/// What a REJ rejects if nothing was received.
const OTHER: u8 = 2;

/// Seconds between two events.
fn between(earlier: &Value, later: &Value) -> f64 {
    later["time"].as_f64().unwrap() - earlier["time"].as_f64().unwrap()
}

/// How many such messages there were; each is seen twice.
fn count(datagrams: &[Datagram], attribute: u16) -> usize {
    datagrams.iter().filter(|datagram| datagram.attribute == attribute).count() / 2
}

/// The REJs: rejected message and reason.
fn rejections(datagrams: &[Datagram]) -> Vec<(u8, u16)> {
    const MAD: usize = 20;
    let rejections = datagrams.iter().filter(|datagram| datagram.attribute == REJ).step_by(2);
    let fields = |datagram: &Datagram| {
        let data = &datagram.payload[MAD + 24..];
        (data[8] >> 6, u16::from_be_bytes([data[10], data[11]]))
    };
    rejections.map(fields).collect()
}

#[test]
fn each_request_is_answered_so_long_after_it_came() {
    isolated!();
    for (answer, name) in [("", "ESTABLISHED"), ("--reject 28", "REJECTED")] {
        let (listener, local) =
            listen(&format!("127.0.0.2:7471 --accept-after 900 --count 3 {answer}"));
        let start = Instant::now();
        let client = run(&format!("connect {local} --count 3 --parallel 3 --json"));
        let taken = start.elapsed();
        assert!((900..2600).contains(&taken.as_millis()), "not one after the other: {taken:?}");
        assert_eq!(client.names().iter().filter(|said| *said == name).count(), 3);
        let events = listener.end().with(0).events();
        let said =
            |name: &str| -> Vec<_> { events.iter().filter(|e| e["event"] == name).collect() };
        let (requests, answers) = (said("CONNECT_REQUEST"), said(name));
        assert_eq!((requests.len(), answers.len()), (3, 3));
        for (request, answer) in requests.into_iter().zip(answers) {
            assert_eq!(answer["id"], request["id"], "in the order of the requests");
            assert!((0.9..2.6).contains(&between(request, answer)), "{request} {answer}");
        }
    }
}

#[test]
fn a_datagram_service_may_think_too() {
    isolated!();
    let (listener, local) = listen("127.0.0.2:7471 --space udp --accept-after 400 --count 1");
    run(&format!("resolve {local} --json")).with(0);
    let ended = listener.end().with(0);
    assert_eq!(ended.names()[1..], ["CONNECT_REQUEST", "ANSWERED"]);
    let events = ended.events();
    assert!((0.4..2.0).contains(&between(&events[1], &events[2])), "{events:?}");
}

#[test]
fn who_waits_for_an_answer_takes_room_in_the_backlog() {
    isolated!();
    let (mut listener, local) = listen("127.0.0.2:7471 --accept-after 1500 --backlog 1");
    let mut first = start(&format!("connect {local} --hold 60000 --json"));
    let request = listener.event("CONNECT_REQUEST");
    let mut second = start(&format!("connect {local} --from 127.0.0.3 --json"));
    let established = listener.event("ESTABLISHED");
    assert_eq!(established["id"], request["id"]);
    assert!(between(&request, &established) >= 1.5);
    first.event("ESTABLISHED");
    // Its repetition finds room.
    let request = listener.event("CONNECT_REQUEST");
    assert!(between(&established, &request) < 3.5, "{request}");
    second.event("ESTABLISHED");
    second.end().with(0);
}

/// The peer's own end: it waits three seconds, whatever the MRA asks for, and says so once.
#[test]
fn a_peer_that_gives_up_while_it_is_asked_to_be_patient_is_forgotten() {
    isolated!();
    let (mut listener, local) = listen("127.0.0.2:7471 --accept-after 60000 --count 1");
    let wire = Wire::tap();
    let start = Instant::now();
    let client = run(&format!("connect {local} --timeout 3000 --json"));
    let taken = start.elapsed();
    assert!((3000..6000).contains(&taken.as_millis()), "{taken:?}");
    assert_eq!(client.names(), ["UNREACHABLE", "ERROR"]);
    client.failed("ETIMEDOUT", "timeout");
    let datagrams = wire.datagrams();
    let (requests, mras) = (count(&datagrams, REQ), count(&datagrams, MRA));
    assert_eq!((requests, mras), (2, 1), "the MRA answers the second");
    assert_eq!(rejections(&datagrams), [(OTHER, 4)], "one, for the timeout");

    listener.event("CONNECT_REQUEST");
    assert_eq!(listener.event("REJECTED")["reason"], 4);
    listener.end().with(0);
}

#[test]
fn a_signal_rejects_who_waits_at_once() {
    isolated!();
    for (answer, reason) in [("", 28), ("--reject 3", 3)] {
        let (mut listener, local) =
            listen(&format!("127.0.0.2:7471 --accept-after 60000 {answer}"));
        let client = start(&format!("connect {local} --count 2 --parallel 2 --json"));
        let requests = [listener.event("CONNECT_REQUEST"), listener.event("CONNECT_REQUEST")];
        let signalled = Instant::now();
        listener.signal("TERM");
        for request in requests {
            let rejected = listener.event("REJECTED");
            assert_eq!((&rejected["id"], &rejected["reason"]), (&request["id"], &reason.into()));
        }
        listener.end().with(0);
        assert!(signalled.elapsed() < Duration::from_secs(2));
        let client = client.end();
        assert_eq!(client.names(), ["REJECTED", "REJECTED", "ERROR"]);
        assert_eq!(client.events()[0]["reason"], reason);
    }
}

/// Who has not answered by then answers no more; the engine has.
#[test]
fn a_request_without_answer_is_rejected_at_the_deadline() {
    isolated!();
    let (listener, local) =
        listen("127.0.0.2:7471 --accept-after 2000 --accept-deadline 300 --count 1");
    let client = run(&format!("connect {local} --json"));
    assert_eq!(client.names(), ["REJECTED", "ERROR"]);
    assert_eq!(client.events()[0]["reason"], 28);
    let ended = listener.end().with(0);
    assert_eq!(ended.names()[1..], ["CONNECT_REQUEST", "CONNECT_ERROR"]);
    let events = ended.events();
    assert_eq!(events[2]["id"], events[1]["id"]);
    assert!((0.3..1.5).contains(&between(&events[1], &events[2])), "{events:?}");
}

#[test]
fn what_is_overdue_is_said_in_words() {
    isolated!();
    let mut listener =
        start("listen 127.0.0.2:7471 --accept-after 2000 --accept-deadline 300 --count 1");
    assert_eq!(listener.line(), "listening on 127.0.0.2:7471");
    run("connect 127.0.0.2:7471").with(1);
    assert!(listener.line().contains(" asks to connect to "));
    let line = listener.line();
    assert!(
        line.ends_with(" was not answered by 127.0.0.2:7471 in time, and is rejected"),
        "{line}"
    );
    listener.end().with(0);
}
