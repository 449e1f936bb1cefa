//! A captured Linux takes part: its messages drive the engine through the events that Linux went
//! through, in either role, and ours say what its own did.
//!
//! The fixtures hold both sides of a conversation. Where the engine plays one side, the other's
//! messages come from the capture, with the communication IDs that the captured side chose rewritten
//! to those the engine chose.

use nanocm_core::addr::{RocePath, ScopedIp};
use nanocm_core::testing::{Solo, World, comm_id};
use nanocm_core::wire::{Mad, RejectReason, Rep, Req, View};
use nanocm_core::{
    ConnParam, ConnState, Disposition, EventKind, Id, Path, PortEvent, PortSpace, Route,
};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// One captured message.
struct Frame {
    at: Duration,
    name: &'static str,
    from: IpAddr,
    mad: Mad,
}

/// A captured conversation.
struct Capture(Vec<Frame>);

macro_rules! capture {
    ($name:literal) => {
        Capture::parse(include_str!(concat!("data/", $name, ".txt")))
    };
}

impl Capture {
    fn parse(text: &'static str) -> Capture {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Capture(lines.map(|line| Frame::parse(line).expect("a frame")).collect())
    }

    /// The first message of this name.
    fn get(&self, name: &str) -> &Frame {
        self.nth(name, 0)
    }

    fn nth(&self, name: &str, n: usize) -> &Frame {
        self.0.iter().filter(|frame| frame.name == name).nth(n).expect("such a message")
    }

    fn client(&self) -> IpAddr {
        self.get("REQ").from
    }

    fn server(&self) -> IpAddr {
        Req(&self.get("REQ").mad).primary_remote_gid().to_ip()
    }

    fn port(&self) -> u16 {
        Req(&self.get("REQ").mad).service_id().to_port().expect("an IP service").1
    }
}

impl Frame {
    fn parse(line: &'static str) -> Option<Frame> {
        let mut words = line.split(' ').skip(1);
        let at = Duration::from_secs_f64(words.next()?.parse().ok()?);
        let (name, from) = (words.next()?, words.next()?.parse().ok()?);
        let digits = words.nth(1)?;
        let mut mad = [0; 256];
        for (octet, digits) in mad.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *octet = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Frame { at, name, from, mad })
    }

    /// Addressed to another communication ID than the captured one.
    fn to(&self, comm_id: u32) -> Mad {
        let mut mad = self.mad;
        mad[28..32].copy_from_slice(&comm_id.to_be_bytes());
        mad
    }
}

/// An engine in the place of one of the two hosts, which has the CA GUID of that host.
fn in_place_of(host: IpAddr, guid: u64, test: impl Fn(Solo<'_>)) {
    World::new().solo(|mut solo| {
        let address = ScopedIp::of(SocketAddr::new(host, 0));
        let event = PortEvent::GidAdded { address, ca_guid: guid };
        assert!(solo.cm.handle_port_event(solo.now, event));
        solo.ip = host;
        test(solo);
    });
}

fn server(capture: &Capture, test: impl Fn(Solo<'_>)) {
    let guid = capture.0.iter().find(|frame| frame.name == "REP");
    let guid = guid.map_or(1, |frame| Rep(&frame.mad).local_ca_guid());
    in_place_of(capture.server(), guid, test);
}

fn client(capture: &Capture, test: impl Fn(Solo<'_>)) {
    let guid = Req(&capture.get("REQ").mad).local_ca_guid();
    in_place_of(capture.client(), guid, test);
}

/// The engine hears the other host.
#[track_caller]
fn hear(solo: &mut Solo<'_>, capture: &Capture, mad: &Mad) {
    let other = if solo.ip == capture.client() { capture.server() } else { capture.client() };
    let path = Path::Roce(RocePath::new(solo.ip.into(), other.into()));
    let disposition = solo.cm.handle_datagram(solo.now, &path, mad);
    assert!(!matches!(disposition, Disposition::Ignored(_)), "{disposition:?}");
}

/// Our message says what Linux's did, but for these fields.
#[track_caller]
fn assert_same(ours: &Mad, linux: &Mad, but: &[&str]) {
    let both = View::new(ours).fields().zip(View::new(linux).fields());
    let differing: Vec<_> =
        both.filter(|((_, ours), (_, linux))| ours != linux).map(|((name, _), _)| name).collect();
    assert_eq!(differing, but, "\n{ours:?}\n{linux:?}");
}

/// The application's side of a captured REP.
fn accept_like(rep: &Mad) -> ConnParam<'_> {
    let rep = Rep(rep);
    let mut param = ConnParam::new(rep.local_qpn());
    param.private_data = rep.private_data();
    param.responder_resources = rep.responder_resources();
    param.initiator_depth = rep.initiator_depth();
    param.rnr_retry_count = rep.rnr_retry_count();
    param.flow_control = rep.end_to_end_flow_control();
    param.srq = rep.srq();
    param
}

/// Sends the captured REQ over an identifier of our own.
fn connect_like(solo: &mut Solo<'_>, capture: &Capture, n: usize) -> Id {
    let req = Req(&capture.nth("REQ", n).mad);
    let id = solo.cm.create_id(PortSpace::Tcp, 0).unwrap();
    let source = SocketAddr::new(solo.ip, req.ip_cm().unwrap().source_port);
    solo.cm.bind(id, source).unwrap();
    let mut route =
        Route::new(Path::Roce(RocePath::new(req.primary_local_gid(), req.primary_remote_gid())));
    // Linux 6.1 takes 18 for the packet lifetime, and 15 for the channel adapter's delay.
    route.packet_lifetime = 18;
    let to = SocketAddr::new(capture.server(), capture.port());
    solo.cm.set_route(solo.now, id, to, &route).unwrap();
    let mut param = ConnParam::new(req.local_qpn());
    param.private_data = req.consumer_data();
    param.responder_resources = req.responder_resources();
    param.initiator_depth = req.initiator_depth();
    param.retry_count = req.retry_count();
    param.rnr_retry_count = req.rnr_retry_count();
    solo.cm.connect(solo.now, id, &param).unwrap();
    id
}

/// What we do otherwise than Linux, on purpose: numbers are each side's own, and a Linux peer shall
/// repeat a lost REP after one second instead of four (field-tests C1).
const OUR_REQ: [&str; 4] =
    ["transaction_id", "local_comm_id", "starting_psn", "local_cm_response_timeout"];

fn serve(capture: Capture) {
    server(&capture, |mut solo| {
        let listener = solo.listen(capture.port(), 0);
        hear(&mut solo, &capture, &capture.get("REQ").mad);
        let id = solo.tells(&["CONNECT_REQUEST"])[0].id;
        let peer = SocketAddr::new(
            capture.client(),
            Req(&capture.get("REQ").mad).ip_cm().unwrap().source_port,
        );
        assert_eq!(solo.cm.peer_addr(id), Ok(peer));
        let linux = capture.get("REP").mad;
        solo.cm.accept(solo.now, id, &accept_like(&linux)).unwrap();
        let rep = solo.says(&["REP"])[0];
        assert_same(&rep, &linux, &["local_comm_id", "starting_psn"]);
        hear(&mut solo, &capture, &capture.get("RTU").to(comm_id(&rep)));
        solo.tells(&["ESTABLISHED"]);
        hear(&mut solo, &capture, &capture.get("DREQ").to(comm_id(&rep)));
        solo.tells(&["DISCONNECTED"]);
        solo.cm.disconnect(solo.now, id, &[]).unwrap();
        let drep = solo.says(&["DREP"])[0];
        assert_same(&drep, &capture.get("DREP").mad, &["local_comm_id"]);
        solo.wait(Duration::from_secs(5));
        solo.tells(&["TIMEWAIT_EXIT"]);
        solo.assert_clean(&[listener, id]);
    });
}

fn ask(capture: Capture) {
    client(&capture, |mut solo| {
        let id = connect_like(&mut solo, &capture, 0);
        let req = solo.says(&["REQ"])[0];
        assert_same(&req, &capture.get("REQ").mad, &OUR_REQ);
        hear(&mut solo, &capture, &capture.get("REP").to(comm_id(&req)));
        solo.tells(&["CONNECT_RESPONSE"]);
        solo.cm.establish(solo.now, id, &[]).unwrap();
        let rtu = solo.says(&["RTU"])[0];
        assert_same(&rtu, &capture.get("RTU").mad, &["transaction_id", "local_comm_id"]);
        solo.tells(&["ESTABLISHED"]);
        solo.cm.disconnect(solo.now, id, &[]).unwrap();
        let dreq = solo.says(&["DREQ"])[0];
        assert_same(&dreq, &capture.get("DREQ").mad, &["transaction_id", "local_comm_id"]);
        hear(&mut solo, &capture, &capture.get("DREP").to(comm_id(&req)));
        solo.tells(&["DISCONNECTED"]);
        solo.wait(Duration::from_secs(5));
        solo.tells(&["TIMEWAIT_EXIT"]);
        solo.assert_clean(&[id]);
    });
}

#[test]
fn rping_over_ipv4_connects_to_us() {
    serve(capture!("rping-v4"));
}

#[test]
fn rping_over_ipv6_connects_to_us() {
    serve(capture!("rping-v6"));
}

#[test]
fn an_rping_that_is_killed_disconnects_from_us() {
    serve(capture!("dreq-on-kill9"));
}

#[test]
fn we_connect_to_rping_over_ipv4() {
    ask(capture!("rping-v4"));
}

#[test]
fn we_connect_to_rping_over_ipv6() {
    ask(capture!("rping-v6"));
}

#[test]
fn we_connect_to_a_server_that_will_be_left_alone() {
    ask(capture!("dreq-on-kill9"));
}

#[test]
fn a_service_that_is_not_there_is_refused_octet_for_octet_like_linux_does() {
    let capture = capture!("rej8-no-listener-v4");
    server(&capture, |mut solo| {
        hear(&mut solo, &capture, &capture.get("REQ").mad);
        assert_eq!(solo.says(&["REJ"])[0], capture.get("REJ").mad);
        solo.assert_clean(&[]);
    });
    client(&capture, |mut solo| {
        let id = connect_like(&mut solo, &capture, 0);
        let req = solo.says(&["REQ"])[0];
        assert_same(&req, &capture.get("REQ").mad, &OUR_REQ);
        hear(&mut solo, &capture, &capture.get("REJ").to(comm_id(&req)));
        let told = solo.tells(&["REJECTED"])[0];
        assert_eq!(told.kind, EventKind::Rejected(RejectReason::INVALID_SERVICE_ID));
        solo.assert_clean(&[id]);
    });
}

#[test]
fn a_server_that_leaves_says_so_to_both_clients() {
    let capture = capture!("rej28-ucmatose");
    let (of_req, of_rep) = (capture.nth("REJ", 0), capture.nth("REJ", 1));
    let accepted = Rep(&capture.get("REP").mad).remote_comm_id();
    // Which of the two REQs was accepted.
    let at = (0..2).find(|&n| comm_id(&capture.nth("REQ", n).mad) == accepted).unwrap();
    server(&capture, |mut solo| {
        let listener = solo.listen(capture.port(), 0);
        hear(&mut solo, &capture, &capture.nth("REQ", 0).mad);
        hear(&mut solo, &capture, &capture.nth("REQ", 1).mad);
        let told = solo.tells(&["CONNECT_REQUEST"; 2]);
        let (accepted, refused) = (told[at].id, told[1 - at].id);
        let linux = capture.get("REP").mad;
        solo.cm.accept(solo.now, accepted, &accept_like(&linux)).unwrap();
        let rep = solo.says(&["REP"])[0];
        assert_same(&rep, &linux, &["local_comm_id", "starting_psn"]);
        solo.cm.reject(solo.now, refused, RejectReason::CONSUMER, &[]).unwrap();
        // Linux, which would have sent an MRA for the next REQ, names itself already; we need not.
        assert_same(&solo.says(&["REJ"])[0], &of_req.mad, &["local_comm_id"]);
        solo.cm.destroy(solo.now, accepted).unwrap();
        assert_same(&solo.says(&["REJ"])[0], &of_rep.mad, &["local_comm_id"]);
        // The RTU was under way: nobody is there any more.
        let rtu = capture.get("RTU").to(comm_id(&rep));
        let path = Path::Roce(RocePath::new(solo.ip.into(), capture.client().into()));
        let disposition = solo.cm.handle_datagram(solo.now, &path, &rtu);
        assert!(matches!(disposition, Disposition::Ignored(_)));
        solo.assert_clean(&[listener, refused]);
    });
    client(&capture, |mut solo| {
        let ids = [connect_like(&mut solo, &capture, 0), connect_like(&mut solo, &capture, 1)];
        let said = solo.says(&["REQ", "REQ"]);
        for (n, req) in said.iter().enumerate() {
            assert_same(req, &capture.nth("REQ", n).mad, &OUR_REQ);
        }
        let (first, second) = (comm_id(&said[at]), comm_id(&said[1 - at]));
        hear(&mut solo, &capture, &capture.get("REP").to(first));
        assert_eq!(solo.tells(&["CONNECT_RESPONSE"])[0].id, ids[at]);
        hear(&mut solo, &capture, &of_req.to(second));
        assert_eq!(solo.tells(&["REJECTED"])[0].id, ids[1 - at]);
        hear(&mut solo, &capture, &of_rep.to(first));
        assert_eq!(solo.tells(&["REJECTED"])[0].id, ids[at]);
        solo.assert_clean(&ids);
    });
}

#[test]
fn a_client_that_is_killed_while_it_waits_gives_up_by_its_ca_guid() {
    let capture = capture!("rej4-timeout-ari");
    server(&capture, |mut solo| {
        let listener = solo.listen(capture.port(), 0);
        hear(&mut solo, &capture, &capture.get("REQ").mad);
        let id = solo.tells(&["CONNECT_REQUEST"])[0].id;
        hear(&mut solo, &capture, &capture.get("REJ").mad);
        let told = solo.tells(&["REJECTED"])[0];
        assert_eq!(told.kind, EventKind::Rejected(RejectReason::TIMEOUT));
        let guid = Req(&capture.get("REQ").mad).local_ca_guid();
        assert_eq!(solo.cm.additional_info(id), guid.to_be_bytes());
        solo.assert_clean(&[listener, id]);
    });
    client(&capture, |mut solo| {
        let id = connect_like(&mut solo, &capture, 0);
        solo.says(&["REQ"]);
        solo.cm.destroy(solo.now, id).unwrap();
        let rej = solo.says(&["REJ"])[0];
        assert_same(&rej, &capture.get("REJ").mad, &["transaction_id", "local_comm_id"]);
        solo.assert_clean(&[]);
    });
}

#[test]
fn a_server_that_takes_its_time_sends_an_mra_and_we_wait() {
    let capture = capture!("mra-req");
    client(&capture, |mut solo| {
        let (start, id) = (solo.now, connect_like(&mut solo, &capture, 0));
        let ours = comm_id(&solo.says(&["REQ"])[0]);
        let mut mad = [0; 256];
        for name in ["MRA", "REP"] {
            let frame = capture.get(name);
            solo.wait((start + frame.at).saturating_since(solo.now));
            let mut repeated = 0;
            while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {
                repeated += 1;
            }
            assert_eq!(repeated > 0, name == "MRA", "nothing is repeated after the MRA");
            hear(&mut solo, &capture, &frame.to(ours));
        }
        solo.tells(&["CONNECT_RESPONSE"]);
        solo.cm.establish(solo.now, id, &[]).unwrap();
        solo.says(&["RTU"]);
        solo.assert_clean(&[id]);
    });
}

#[test]
fn a_linux_that_repeats_its_req_is_still_one_request() {
    let capture = capture!("mra-req");
    server(&capture, |mut solo| {
        let listener = solo.listen(capture.port(), 0);
        hear(&mut solo, &capture, &capture.nth("REQ", 0).mad);
        let id = solo.tells(&["CONNECT_REQUEST"])[0].id;
        solo.wait(capture.nth("REQ", 1).at);
        hear(&mut solo, &capture, &capture.nth("REQ", 1).mad);
        solo.tells(&[]);
        assert_eq!(solo.cm.conn_state(id), Ok(ConnState::ReqRcvd));
        let linux = capture.get("REP").mad;
        solo.cm.accept(solo.now, id, &accept_like(&linux)).unwrap();
        let rep = solo.says(&["REP"])[0];
        assert_same(&rep, &linux, &["local_comm_id", "starting_psn"]);
        hear(&mut solo, &capture, &capture.get("RTU").to(comm_id(&rep)));
        solo.tells(&["ESTABLISHED"]);
        solo.assert_clean(&[listener, id]);
    });
}
