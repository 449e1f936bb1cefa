//! Private data.

use nanocm_core::conn::limits;
use nanocm_core::error::{ConnectError, errno::EMSGSIZE};
use nanocm_core::testing::{Side::*, Solo, World};
use nanocm_core::wire::{Mad, RejectReason, SidrReq};
use nanocm_core::{ConnParam, ConnState, ConnState::*, Id, PortSpace};
use std::cell::Cell;

/// A message: its name and limit, where a connection must be for it, and the call that sends it.
type Sending = (
    &'static str,
    usize,
    (ConnState, bool),
    fn(&mut Solo<'_>, Id, &ConnParam<'_>) -> Result<(), ConnectError>,
);

const SENDINGS: [Sending; 8] = [
    // An attempt that is over may begin anew: it has its route.
    ("REQ", limits::REQ, (Idle, true), |solo, id, param| {
        let _ = solo.cm.reset(id);
        solo.cm.connect(solo.now, id, param)
    }),
    ("REP", limits::REP, (ReqRcvd, false), |solo, id, param| solo.cm.accept(solo.now, id, param)),
    ("REJ", limits::REJ, (ReqRcvd, false), |solo, id, param| {
        solo.cm.reject(solo.now, id, RejectReason::CONSUMER, param.private_data)
    }),
    ("RTU", limits::RTU, (RepRcvd, true), |solo, id, param| {
        solo.cm.establish(solo.now, id, param.private_data)
    }),
    ("DREQ", limits::DREQ, (Established, true), |solo, id, param| {
        solo.cm.disconnect(solo.now, id, param.private_data)
    }),
    ("DREP", limits::DREP, (DreqRcvd, false), |solo, id, param| {
        solo.cm.disconnect(solo.now, id, param.private_data)
    }),
    ("SIDR_REQ", limits::SIDR_REQ, (SidrResolved, true), |solo, id, param| {
        let _ = solo.cm.reset(id);
        solo.cm.connect(solo.now, id, param)
    }),
    ("SIDR_REP", limits::SIDR_REP, (SidrReqRcvd, false), |solo, id, param| {
        solo.cm.accept(solo.now, id, param)
    }),
];

fn listen(solo: &mut Solo<'_>) -> [Id; 2] {
    [PortSpace::Tcp, PortSpace::Udp].map(|space| solo.listen_in(space, 7471, 0))
}

/// Sends so many octets of 0xAA into a buffer of something else.
fn send(
    solo: &mut Solo<'_>,
    sending: &Sending,
    len: usize,
    buffer: Mad,
) -> Result<Mad, ConnectError> {
    let &(_, _, (state, active), call) = sending;
    let it = solo.bring(state, active);
    let data = vec![0xaa; len];
    let mut param = ConnParam::new(solo.qpn());
    param.private_data = &data;
    let before = format!("{:?}", solo.cm);
    let done = call(solo, it.id, &param);
    let mut mad = buffer;
    let sent = solo.cm.poll_transmit(solo.now, &mut mad).is_some();
    assert_eq!(sent, done.is_ok(), "what is refused is not sent");
    if done.is_err() && !matches!(state, Idle | SidrResolved) {
        assert_eq!(format!("{:?}", solo.cm), before);
    }
    solo.cm.destroy(solo.now, it.id).unwrap();
    while solo.cm.poll_transmit(solo.now, &mut [0; 256]).is_some() {}
    done.map(|()| mad)
}

/// Every message's private data are its last octets.
fn field(mad: &Mad, limit: usize) -> &[u8] {
    &mad[256 - limit..]
}

#[test]
fn f1_each_message_has_its_limit_and_beyond_it_nothing_is_sent() {
    for sending in &SENDINGS {
        let &(name, limit, ..) = sending;
        World::new().solo(|mut solo| {
            let listeners = listen(&mut solo);
            let full = send(&mut solo, sending, limit, [0; 256]).unwrap();
            assert_eq!(field(&full, limit), vec![0xaa; limit], "{name}");
            for len in [limit + 1, 256, 1 << 16] {
                let too_long = ConnectError::PrivateDataTooLong { limit };
                let refused = send(&mut solo, sending, len, [0; 256]);
                assert_eq!(refused, Err(too_long), "{name} of {len}");
                assert_eq!(too_long.errno(), EMSGSIZE);
            }
            solo.assert_clean(&listeners);
        });
    }
}

#[test]
fn f2_what_was_not_sent_arrives_as_zero() {
    // Whatever was in the buffer before, in the private data and in reserved bits.
    for sending in &SENDINGS {
        let &(name, limit, ..) = sending;
        let [clean, dirty] = [0, 0xff].map(|octet| {
            let sent = Cell::new([0; 256]);
            World::new().solo(|mut solo| {
                let listeners = listen(&mut solo);
                sent.set(send(&mut solo, sending, 40, [octet; 256]).unwrap());
                solo.assert_clean(&listeners);
            });
            sent.get()
        });
        assert_eq!(field(&dirty, limit)[..40], [0xaa; 40], "{name}");
        assert_eq!(field(&dirty, limit)[40..], vec![0; limit - 40], "{name}: stale memory");
        assert_eq!(clean, dirty, "{name}: stale memory");
    }
    // The receiver has the whole field.
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let active = pair.connect(7471, &[0xaa; 40]);
        let told = pair.expect(B, "CONNECT_REQUEST");
        assert_eq!(told.data, [&[0xaa; 40][..], &[0; 16]].concat());
        pair.assert_clean(&[active], &[listener, told.event.id]);
    });
}

#[test]
fn f3_limits_are_constants_and_empty_is_the_same_as_none() {
    // As lengths of arrays, that is: known at compile time.
    let _: ([u8; 56], [u8; 92]) = ([0; limits::REQ], [0; limits::REQ_AF_IB]);
    let _: ([u8; 196], [u8; 148]) = ([0; limits::REP], [0; limits::REJ]);
    let _: ([u8; 224], [u8; 220], [u8; 224]) =
        ([0; limits::RTU], [0; limits::DREQ], [0; limits::DREP]);
    let _: ([u8; 180], [u8; 136]) = ([0; limits::SIDR_REQ], [0; limits::SIDR_REP]);
    let mut mad = [0; 256];
    assert!(SidrReq::emit(&mut mad, 1).set_consumer_data(&[7; 181]).is_err());
    assert_eq!(SidrReq(&mad).consumer_data(), &[0; 180], "nothing of it was written");
    SidrReq(&mut mad).set_consumer_data(&[7; 180]).unwrap();
    assert_eq!(SidrReq(&mad).consumer_data(), &[7; limits::SIDR_REQ]);
    for sending in &SENDINGS {
        World::new().solo(|mut solo| {
            let listeners = listen(&mut solo);
            let none = send(&mut solo, sending, 0, [0; 256]).unwrap();
            assert_eq!(field(&none, sending.1), vec![0; sending.1], "{}", sending.0);
            solo.assert_clean(&listeners);
        });
    }
}
