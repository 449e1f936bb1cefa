//! `nanocm probe`: against itself, against nobody, and against peers that are wrong on purpose.

use crate::isolated;
use crate::process::*;
use nanocm::PortSpace;
use nanocm::core::{Gid, ServiceId};
use nanocm::provider::Frames;
use nanocm_core::wire::icrc::Ip;
use nanocm_core::wire::roce::{PAYLOAD_LEN, UDP_PORT, frame, unframe};
use nanocm_core::wire::{
    Attribute, Drep, Dreq, Header, MAD_LEN, Mad, MessageKind, Rej, RejectReason, Rep, Req,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use serde_json::Value;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

/// The conversations by verdict, and the sum at the end.
fn verdicts(ended: &Ended) -> (Vec<(String, String)>, Value) {
    let mut events = ended.events();
    let sum = events.pop().expect("a sum");
    assert_eq!(sum["event"], "SUMMARY");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let pair = |event: &Value| {
        assert_eq!(event["event"], "PROBED");
        for field in ["sent", "expected", "seen"] {
            assert!(event[field].is_string(), "{event}");
        }
        (text(&event["name"]), text(&event["verdict"]))
    };
    let all: Vec<_> = events.iter().map(pair).collect();
    for verdict in ["as-specified", "as-linux", "deviates", "not-tested"] {
        let count = all.iter().filter(|(_, given)| given == verdict).count();
        assert_eq!(sum[verdict], count, "{verdict}");
    }
    (all, sum)
}

fn with(all: &[(String, String)], verdict: &str) -> Vec<String> {
    all.iter().filter(|(_, given)| given == verdict).map(|(name, _)| name.clone()).collect()
}

fn event(ended: &Ended, name: &str) -> Value {
    let events = ended.events();
    events.into_iter().find(|event| event["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn nothing_deviates_at_our_own_listener_and_nothing_is_left_behind() {
    isolated!();
    let (listener, _) = listen("127.0.0.2:7471");
    let begin = Instant::now();
    let ended = run("probe 127.0.0.2:7471 --from 127.0.0.1 --rude --json");
    assert!(begin.elapsed() < Duration::from_secs(60));
    let (all, sum) = verdicts(&ended);
    let deviations: Vec<_> =
        ended.events().into_iter().filter(|event| event["verdict"] == "deviates").collect();
    assert!(deviations.is_empty(), "{deviations:#?}");
    // There is no datagram service at that port.
    let untested = with(&all, "not-tested");
    assert_eq!(untested, ["sidr", "sidr-header", "sidr-repeated", "sidr-pending"]);
    assert!(all.len() > 80, "{}", all.len());
    assert_eq!(sum["remarks"], Value::Array(Vec::new()));
    ended.with(0);

    listener.signal("INT");
    let heard = listener.end().with(0);
    let count = |name: &str| heard.names().iter().filter(|event| *event == name).count();
    assert!(count("ESTABLISHED") > 10);
    nothing_was_left(&heard);
}

#[test]
fn a_datagram_service_is_asked_too() {
    isolated!();
    let (_listener, _) = listen("127.0.0.2:7174 --space udp");
    let ended = run("probe 127.0.0.2:7174 --from 127.0.0.1 --json").with(0);
    let (all, _) = verdicts(&ended);
    let tested = |name: &str| all.contains(&(name.to_owned(), "as-specified".to_owned()));
    assert!(tested("sidr") && tested("sidr-header") && tested("sidr-repeated"), "{all:?}");
    let reason = event(&ended, "connect")["reason"].clone();
    assert_eq!(reason, "there is no listener at port 7174");
}

#[test]
fn without_a_port_the_cm_alone_is_tested() {
    isolated!();
    let (_listener, _) = listen("127.0.0.2:7471");
    let ended = run("probe 127.0.0.2 --from 127.0.0.1 --json").with(0);
    assert_eq!(event(&ended, "connect")["reason"], "no port was given");
    assert_eq!(event(&ended, "no-listener")["verdict"], "as-specified");
}

#[test]
fn who_never_accepts_is_tested_as_far_as_that_goes() {
    isolated!();
    for (options, why) in [
        ("--reject no-qp", "the listener at port 7471 rejects all: 1 (no-qp)"),
        ("--accept-after 3600000", "the listener at port 7471 never answers"),
    ] {
        let (_listener, _) = listen(&format!("127.0.0.2:7471 {options}"));
        let ended = run("probe 127.0.0.2:7471 --from 127.0.0.1 --json").with(0);
        let connect = event(&ended, "connect");
        assert_eq!((&connect["verdict"], &connect["reason"]), (&"not-tested".into(), &why.into()));
        assert_eq!(event(&ended, "foreign-gid")["verdict"], "as-specified");
    }
}

#[test]
fn nobody_there_is_said_at_once() {
    isolated!();
    veth();
    let begin = Instant::now();
    let error = run("probe 127.0.0.9:7471 --json").failed("ETIMEDOUT", "send-failed");
    let text = error["message"].as_str().unwrap();
    assert_eq!(text, "probe 127.0.0.9:7471: nothing answers UDP 4791 at that address");
    // We have the port, so nobody else has.
    run("probe 127.0.0.1 --from 127.0.0.1 --json").failed("ETIMEDOUT", "send-failed");
    run("probe 127.0.0.1 --from ::1 --json").failed("ETIMEDOUT", "send-failed");
    let error = run("probe 10.9.0.2 --json").failed("ETIMEDOUT", "timeout");
    assert_eq!(error["message"], "probe 10.9.0.2: no CM answers there");
    assert!(begin.elapsed() < Duration::from_secs(20));
    let error = run("probe 192.0.2.1 --json").failed("ENETUNREACH", "host");
    assert_eq!(error["message"], "find the way 192.0.2.1: Network is unreachable");
    assert_eq!(error["peer"], "192.0.2.1");
}

/// A signal ends it within half a second; another half is for busy machines.
#[track_caller]
fn interrupted(probe: Program) -> Ended {
    let begin = Instant::now();
    probe.signal("INT");
    let ended = probe.end().with(1);
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    ended
}

#[test]
fn a_signal_ends_it_while_nobody_answers() {
    isolated!();
    veth();
    let probe = start("probe 10.9.0.2:7471 --json");
    probe.silent_for(Duration::from_millis(300));
    interrupted(probe).failed("EINTR", "interrupted");
}

#[test]
fn a_signal_ends_it_and_a_request_is_withdrawn() {
    isolated!();
    let (mut listener, _) = listen("127.0.0.2:7471 --accept-after 3600000");
    let probe = start("probe 127.0.0.2:7471 --from 127.0.0.1 --json");
    listener.event("CONNECT_REQUEST");
    interrupted(probe).failed("EINTR", "interrupted");
    assert_eq!(listener.event("REJECTED")["reason"], 4);
}

#[test]
fn a_signal_ends_it_while_conversations_go_on_side_by_side() {
    isolated!();
    let (_listener, _) = listen("127.0.0.2:7471");
    let mut probe = start("probe 127.0.0.2:7471 --from 127.0.0.1");
    probe.line();
    let ended = interrupted(probe);
    assert_eq!(ended.lines.len(), 1, "{:?}", ended.lines);
    assert_eq!(ended.stderr, "nanocm: interrupted before some conversations\n");
}

#[test]
fn a_signal_ends_it_and_a_connection_is_disconnected() {
    isolated!();
    let (listener, _) = listen("127.0.0.2:7471");
    let mut probe = start("probe 127.0.0.2:7471 --from 127.0.0.1");
    // The next one's connection stands for 600 ms.
    while !probe.line().contains("  duplicate-req  ") {}
    thread::sleep(Duration::from_millis(150));
    let ended = interrupted(probe);
    let conversation = "the end of the conversation duplicate-req-established";
    assert_eq!(ended.stderr, format!("nanocm: interrupted before {conversation}\n"));
    listener.signal("INT");
    nothing_was_left(&listener.end().with(0));
}

/// What stood at the listener had ended before a signal did that.
#[track_caller]
fn nothing_was_left(heard: &Ended) {
    let established = |event: &&Value| event["event"] == "ESTABLISHED";
    for established in heard.events().iter().filter(established) {
        let over = |e: &Value| e["id"] == established["id"] && e["event"] == "DISCONNECTED";
        let end = heard.events().into_iter().find(over).expect("its end");
        assert_eq!(end["cause"], "peer", "{end}");
    }
}

#[test]
fn whom_it_cannot_ask_is_told() {
    isolated!();
    for peer in ["0.0.0.0:7", "[::]", "224.0.0.1", "[ff02::1]:7", "255.255.255.255"] {
        let ended = run(&format!("probe {peer} --json")).with(2);
        assert!(ended.stderr.contains("is no single host's address"), "{}", ended.stderr);
    }
    let ended = run("probe 127.0.0.2 --from 127.0.0.1:7 --json").with(2);
    assert!(ended.stderr.contains("no RDMA port"), "{}", ended.stderr);
    for arguments in ["[fe80::1]:7", "fe80::1", "127.0.0.2 --from fe80::1"] {
        let error = run(&format!("probe {arguments} --json")).failed("EINVAL", "scope-missing");
        assert!(!error.to_string().contains(":0"), "{error}");
    }
}

#[test]
fn help_names_verdicts_and_exit_status() {
    let ended = run("probe --help").with(0);
    let help = ended.lines.join("\n");
    for word in ["as-specified", "as-linux", "deviates", "not-tested", "Exit status", "1 something"]
    {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn who_has_the_port_is_named() {
    isolated!();
    let (listener, _) = listen("127.0.0.2:7471");
    let error = run("probe 127.0.0.3 --from 127.0.0.2 --json").failed("EADDRINUSE", "held");
    assert_eq!(error["holder"]["pid"], listener.pid());
}

#[test]
fn only_udp_will_do() {
    isolated!();
    run("probe 127.0.0.2 --provider raw --json").failed("EOPNOTSUPP", "provider");
    assert_eq!(run("probe 127.0.0.2 --json --markdown x").code, Some(2));
}

#[test]
fn a_report_in_markdown_has_title_command_table_and_sum() {
    isolated!();
    let (_listener, _) = listen("127.0.0.2:7471");
    let ended = run("probe 127.0.0.2 --from 127.0.0.1 --markdown Title").with(0);
    assert_eq!(ended.lines[0], "# Title");
    assert_eq!(ended.lines[2], "    nanocm probe 127.0.0.2 --from 127.0.0.1 --markdown Title");
    let row = ended.lines.iter().find(|line| line.starts_with("| `no-listener` |")).unwrap();
    assert!(row.ends_with("| REJ 8 | REJ reason 8 (invalid-service-id) | as-specified |"), "{row}");
    assert!(ended.lines.last().unwrap().contains(" as-specified, "));
}

/// What a peer does wrong.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Tid,
    Icrc,
    Reason,
    Reserved,
    QKey,
    /// Takes what it should drop.
    Careless,
    /// The same, and answers late.
    Slow,
    /// Says everything too often.
    Babble,
    /// Says nothing any more after a while.
    Mortal,
    /// Gets no RTU, and repeats its REP.
    Deaf,
    /// Says that a GID is wrong, and that this very one is the right one.
    Gid,
    /// Waits 300 ms for an RTU, then rejects (4): that is as specified.
    Brief,
}

/// A peer on 127.0.0.2 that rejects each REQ with reason 8, or accepts it (`Babble`, `Deaf`, `Gid`, `Brief`), and is
/// wrong in one thing.
fn broken_peer(fault: Fault) {
    let socket = UdpSocket::bind(("127.0.0.2", UDP_PORT)).unwrap();
    let begin = Instant::now();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, sender)) = socket.recv_from(&mut buffer) {
            let careless = matches!(fault, Fault::Careless | Fault::Slow);
            let (mad, is_good) = match unframe(&buffer[..length]) {
                Ok(gsi) => (*gsi.mad, true),
                Err(_) if careless && length == PAYLOAD_LEN => {
                    (buffer[20..][..MAD_LEN].try_into().unwrap(), false)
                }
                Err(_) => continue,
            };
            let is_cm = mad[..4] == [1, 7, 2, 3];
            if !(is_cm || careless) || fault == Fault::Mortal && begin.elapsed() > LIFE {
                continue;
            }
            let socket = socket.try_clone().unwrap();
            match Header(&mad).attribute() {
                Attribute::REQ if accepts(fault, &mad) => {
                    thread::spawn(move || accept(fault, &socket, sender, &mad));
                }
                Attribute::REQ if fault == Fault::Slow && !is_good => {
                    thread::spawn(move || {
                        thread::sleep(Duration::from_millis(500));
                        say(fault, &socket, sender, &rejection(fault, &mad));
                    });
                }
                Attribute::REQ => say(fault, &socket, sender, &rejection(fault, &mad)),
                Attribute::DREQ => {
                    let dreq = Dreq(&mad);
                    let mut drep = [0; MAD_LEN];
                    Drep::emit(&mut drep, dreq.transaction_id())
                        .set_local_comm_id(dreq.remote_comm_id())
                        .set_remote_comm_id(dreq.local_comm_id());
                    say(fault, &socket, sender, &drep);
                }
                _ => {}
            }
        }
    });
}

/// So long it answers.
const LIFE: Duration = Duration::from_secs(1);

fn accepts(fault: Fault, mad: &Mad) -> bool {
    let listener = ServiceId::new(PortSpace::Tcp, 7471);
    let accepts = matches!(fault, Fault::Babble | Fault::Deaf | Fault::Gid | Fault::Brief);
    accepts && Req(mad).service_id() == listener && !is_gid_wrong(fault, mad)
}

fn is_gid_wrong(fault: Fault, mad: &Mad) -> bool {
    let ours = Gid::from_ip("127.0.0.2".parse().unwrap());
    fault == Fault::Gid && Req(mad).primary_remote_gid() != ours
}

fn rejection(fault: Fault, mad: &Mad) -> Mad {
    let req = Req(mad);
    let tid = req.transaction_id() ^ u64::from(fault == Fault::Tid);
    let mut answer = [0; MAD_LEN];
    Rej::emit(&mut answer, tid)
        .set_remote_comm_id(req.local_comm_id())
        .set_reason(RejectReason(if fault == Fault::Reason { 7 } else { 8 }));
    if is_gid_wrong(fault, mad) {
        Rej(&mut answer)
            .set_reason(RejectReason::INVALID_PRIMARY_GID)
            .set_additional_info(&req.primary_remote_gid().0);
    }
    answer[24 + 8] |= u8::from(fault == Fault::Reserved);
    answer
}

/// A REP, and what follows if nobody hears an RTU.
fn accept(fault: Fault, socket: &UdpSocket, sender: SocketAddr, mad: &Mad) {
    let req = Req(mad);
    let (tid, id) = (req.transaction_id(), req.local_comm_id());
    let (mut rep, mut rej) = ([0; MAD_LEN], [0; MAD_LEN]);
    Rep::emit(&mut rep, tid).set_local_comm_id(!id).set_remote_comm_id(id).set_local_qpn(0x77);
    Rej::emit(&mut rej, tid)
        .set_local_comm_id(!id)
        .set_remote_comm_id(id)
        .set_message_rejected(MessageKind::REP)
        .set_reason(RejectReason::TIMEOUT);
    say(fault, socket, sender, &rep);
    let repeats = if req.local_cm_response_timeout() == 16 { req.max_cm_retries() } else { 0 };
    for _ in 0..repeats.min(3) {
        thread::sleep(Duration::from_millis(280));
        say(fault, socket, sender, &rep);
    }
    if fault == Fault::Brief && matches!(req.max_cm_retries(), 0 | 3) {
        thread::sleep(Duration::from_millis(300));
        say(fault, socket, sender, &rej);
    }
}

fn say(fault: Fault, socket: &UdpSocket, sender: SocketAddr, mad: &Mad) {
    let ips = ["127.0.0.2", "127.0.0.1"].map(|ip| Gid::from_ip(ip.parse().unwrap()));
    let (mut payload, crc) = ([0; PAYLOAD_LEN], nanocm::crc::crc32);
    frame(&Ip::new(ips[0], ips[1]), UDP_PORT, 0, mad, crc, &mut payload);
    if fault == Fault::QKey {
        payload[15] = 2;
    }
    payload[PAYLOAD_LEN - 1] ^= u8::from(fault == Fault::Icrc);
    for _ in 0..if fault == Fault::Babble { 300 } else { 1 } {
        socket.send_to(&payload, sender).unwrap();
    }
}

/// The probe of such a peer says what is wrong, and where.
#[track_caller]
fn is_told(fault: Fault, conversation: &str, place: &str) {
    broken_peer(fault);
    let ended = run("probe 127.0.0.2:7471 --from 127.0.0.1 --json").with(1);
    let found = event(&ended, conversation);
    assert_eq!(found["verdict"], "deviates", "{found}");
    assert_eq!(found["where"], place, "{found}");
    assert!(found["expected_there"].is_string() && found["seen_there"].is_string(), "{found}");
    verdicts(&ended);
    assert_eq!(ended.stderr, "");
}

#[test]
fn a_wrong_transaction_id_is_found() {
    isolated!();
    is_told(Fault::Tid, "no-listener", "MAD octet 8, transaction_id");
}

#[test]
fn a_wrong_icrc_is_found() {
    isolated!();
    is_told(Fault::Icrc, "no-listener", "UDP payload octet 276, ICRC");
}

#[test]
fn a_wrong_reason_is_found() {
    isolated!();
    is_told(Fault::Reason, "no-listener", "MAD octet 34, reason");
}

#[test]
fn a_gid_that_is_not_the_peers_is_found() {
    isolated!();
    is_told(Fault::Gid, "foreign-gid", "MAD octet 36, ari");
}

#[test]
fn a_reserved_bit_is_found() {
    isolated!();
    is_told(Fault::Reserved, "no-listener", "MAD octet 32, reserved");
}

#[test]
fn a_wrong_q_key_is_found() {
    isolated!();
    is_told(Fault::QKey, "no-listener", "UDP payload octet 12, DETH Q_Key");
}

#[test]
fn who_takes_what_should_be_dropped_is_found() {
    isolated!();
    is_told(Fault::Careless, "tver", "which message it is");
}

#[test]
fn a_peer_that_repeats_its_rep_for_ever_is_found() {
    isolated!();
    is_told(Fault::Deaf, "rtu-twice", "what follows the RTU");
}

#[test]
fn a_peer_that_gives_up_waiting_for_an_rtu_does_as_specified() {
    isolated!();
    broken_peer(Fault::Brief);
    let ended = run("probe 127.0.0.2:7471 --from 127.0.0.1 --json").with(1);
    for name in ["rep-repeated", "rep-retries-0"] {
        let found = event(&ended, name);
        assert_eq!(found["verdict"], "as-specified", "{found}");
        assert!(found["seen"].as_str().unwrap().contains("REJ reason 4 (timeout)"), "{found}");
    }
    let found = event(&ended, "crossing-dreqs");
    assert_eq!(found["verdict"], "not-tested", "{found}");
    assert_eq!(found["reason"], "the peer sends no DREQ by itself");
}

#[test]
fn a_peer_that_talks_without_end_is_not_listened_to_for_ever() {
    isolated!();
    let begin = Instant::now();
    is_told(Fault::Babble, "duplicate-req-at-once", "how many datagrams come");
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn what_comes_late_is_said() {
    isolated!();
    broken_peer(Fault::Slow);
    let ended = run("probe 127.0.0.2 --from 127.0.0.1 --json").with(1);
    let (_, sum) = verdicts(&ended);
    let remark = sum["remarks"][0].as_str().expect("a remark");
    assert!(remark.contains("late: REJ reason 8 (invalid-service-id)"), "{remark}");
}

#[test]
fn a_peer_that_dies_meanwhile_is_no_peer_that_keeps_silent() {
    isolated!();
    broken_peer(Fault::Mortal);
    let begin = Instant::now();
    let ended = run("probe 127.0.0.2 --from 127.0.0.1 --json").with(1);
    let (_, sum) = verdicts(&ended);
    let remark = sum["remarks"][0].as_str().expect("a remark");
    assert!(remark.starts_with("the CM does not answer any more"), "{remark}");
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn an_error_of_the_network_is_told_once_and_leaves_the_socket_quiet() {
    isolated!();
    let frames = Frames::open(nanocm::core::ScopedIp::of("127.0.0.1:0".parse().unwrap())).unwrap();
    frames.send("127.0.0.9:0".parse().unwrap(), &[0; 280]).unwrap();
    thread::sleep(Duration::from_millis(100));
    assert!(frames.recv(|_, _| panic!("nobody is there")).is_err());
    assert!(!frames.recv(|_, _| panic!("nobody is there")).unwrap());
    let mut fds = [PollFd::from_borrowed_fd(frames.as_fd(), PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    assert_eq!(rustix::event::poll(&mut fds, Some(&timeout)).unwrap(), 0);
}
