//! Languages, FPGA, firmware.

use nanocm_core::testing::{Capacity, Watch, World, comm_id};
use nanocm_core::wire::icrc::{Integrity, Ip, crc32, verify};
use nanocm_core::wire::roce::{PAYLOAD_LEN, QP1_SOURCE_PORT, frame, unframe};
use nanocm_core::wire::{
    Apr, Drep, Dreq, Lap, Mad, Message, Mra, Rej, RejectReason, Rep, Req, Rtu, SidrRep, SidrReq,
};
use nanocm_core::{ConnState::*, Disposition};
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn k1_two_endpoints_connect_in_sixty_lines() {
    // The example of the front page, which is compiled and run as a doctest; the core without an
    // operating system is built by `make bare-metal`.
    let page = include_str!("../../src/lib.rs");
    let example = page.split("//! ```").nth(1).unwrap();
    for call in ["listen(", "connect(", "accept(", "establish(", "EventKind::Established"] {
        assert!(example.contains(call), "{call}");
    }
    assert!(example.lines().count() < 60, "{} lines", example.lines().count());
}

#[test]
fn k2_frames_in_and_frames_out() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let peer = solo.peer();
        let path = solo.path(&peer);
        let [there, here] = [peer.ip, solo.ip].map(Into::into);
        // What a wire brings: UDP payloads of 280 octets.
        let hear = |cm: &mut Watch<'_>, mad: &Mad| {
            let (ip, mut payload) = (Ip::new(there, here), [0; PAYLOAD_LEN]);
            frame(&ip, QP1_SOURCE_PORT, 0, mad, crc32, &mut payload);
            assert_eq!(verify(&ip, QP1_SOURCE_PORT, &payload, crc32), Integrity::Ok);
            let gsi = unframe(&payload).unwrap();
            assert_eq!(cm.handle_datagram(solo.now, &path, gsi.mad), Disposition::Accepted);
        };
        hear(&mut solo.cm, &peer.req(solo.ip, 7471));
        let id = solo.cm.poll_event().unwrap().id;
        let param = nanocm_core::ConnParam::new(0x11);
        solo.cm.accept(solo.now, id, &param).unwrap();
        let (mut mad, mut payload) = ([0; 256], [0; PAYLOAD_LEN]);
        solo.cm.poll_transmit(solo.now, &mut mad).unwrap();
        frame(&Ip::new(here, there), QP1_SOURCE_PORT, 1, &mad, crc32, &mut payload);
        // Read by hand, as an FPGA would: opcode, P_Key, queue pair, Q_Key, MAD header, attribute,
        // communication IDs, queue pair.
        assert_eq!(
            (payload[0], &payload[2..4], &payload[5..8]),
            (0x64, &[0xff; 2][..], &[0, 0, 1][..])
        );
        assert_eq!(payload[12..16], [0x80, 1, 0, 0]);
        assert_eq!(payload[20..24], [1, 7, 2, 3]);
        assert_eq!(payload[36..38], [0, 0x13]);
        assert_eq!(payload[48..52], peer.comm_id.to_be_bytes());
        assert_eq!(payload[56..59], [0, 0, 0x11]);
        assert_eq!(verify(&Ip::new(here, there), QP1_SOURCE_PORT, &payload, crc32), Integrity::Ok);
        hear(&mut solo.cm, &peer.rtu(comm_id(&mad)));
        assert_eq!(solo.cm.conn_state(id), Ok(Established));
        solo.tells(&["ESTABLISHED"]);
        solo.assert_clean(&[listener, id]);
    });
}

#[test]
fn k3_one_connection_is_enough_for_a_responder() {
    // DESIGN: listeners are no connections; the one slot is for the connection alone.
    World::new().of(Capacity { ids: 2, conns: 1, ..Capacity::of(1) }).solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        for _ in 0..3 {
            let it = solo.bring(Established, false);
            let second = solo.peer();
            let _ = solo.hears(&second, &second.req(solo.ip, 7471));
            let rej = solo.says(&["REJ"])[0];
            assert_eq!(Rej(&rej).reason(), RejectReason::NO_RESOURCES);
            let _ = solo.hears(&it.peer, &it.peer.dreq(it.comm_id, it.qpn));
            solo.tells(&["DISCONNECTED"]);
            solo.cm.disconnect(solo.now, it.id, &[]).unwrap();
            solo.says(&["DREP"]);
            solo.wait(Duration::from_secs(1));
            solo.tells(&["TIMEWAIT_EXIT"]);
            solo.cm.destroy(solo.now, it.id).unwrap();
        }
        // One whose peer does not answer the goodbye gives way as well.
        let it = solo.bring(Established, false);
        solo.cm.destroy(solo.now, it.id).unwrap();
        let it = solo.bring(Established, false);
        assert_eq!(solo.cm.counters().farewells_dropped, 1);
        solo.assert_clean(&[listener, it.id]);
    });
}

#[test]
fn k4_the_eleven_messages_have_eleven_numbers() {
    macro_rules! written {
        ($($Name:ident $number:literal)*) => {
            [$({
                let mut mad: Mad = [0; 256];
                $Name::emit(&mut mad, 0x1122_3344_5566_7788);
                for (at, octet) in (24..=255).zip(&mut mad[24..]) {
                    *octet = at;
                }
                assert_eq!(mad[16..18], [0, $number], stringify!($Name));
                let Ok(Message::$Name(read)) = Message::parse(&mad) else {
                    panic!("{} is read as something else", stringify!($Name))
                };
                // That each field survives both ways is a unit test of `wire`.
                assert_eq!((read.0, read.transaction_id()), (&mad, 0x1122_3344_5566_7788));
                $number
            }),*]
        };
    }
    let numbers = written!(Req 0x10 Mra 0x11 Rej 0x12 Rep 0x13 Rtu 0x14 Dreq 0x15 Drep 0x16
                           SidrReq 0x17 SidrRep 0x18 Lap 0x19 Apr 0x1a);
    assert_eq!(BTreeSet::from(numbers).len(), 11);
    // Every other number is none of them.
    let mut mad: Mad = [0; 256];
    Req::emit(&mut mad, 1);
    for number in (0..=u16::MAX).filter(|number| !(0x10..=0x1a).contains(number)) {
        mad[16..18].copy_from_slice(&number.to_be_bytes());
        assert!(Message::parse(&mad).is_err(), "{number:#x}");
    }
}
