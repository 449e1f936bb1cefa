//! A connection's life on a perfect link.

use nanocm_core::testing::{Capacity, Memory, Pair, Side::*};
use nanocm_core::{DisconnectCause, EventKind, Instant};

#[test]
fn five_messages_connect_and_disconnect() {
    let (mut a, mut b) = (Memory::new(Capacity::of(4)), Memory::new(Capacity::of(4)));
    let mut pair = Pair::new([&mut a, &mut b], 1, Instant::ZERO);
    let listener = pair.listen(7471, 0);
    let active = pair.connect(7471, b"hello");
    let request = pair.expect(B, "CONNECT_REQUEST");
    assert_eq!(request.data[..5], *b"hello");
    assert_eq!(request.data.len(), 56);
    let passive = request.event.id;
    pair.accept(passive, b"welcome");
    let response = pair.expect(A, "CONNECT_RESPONSE");
    assert_eq!(response.data[..7], *b"welcome");
    assert_eq!(response.data.len(), 196);
    let now = pair.now;
    pair.cm(A).establish(now, active, &[]).unwrap();
    pair.expect(A, "ESTABLISHED");
    pair.expect(B, "ESTABLISHED");
    let now = pair.now;
    pair.cm(A).disconnect(now, active, &[]).unwrap();
    let gone = pair.expect(B, "DISCONNECTED");
    assert_eq!(gone.kind(), EventKind::Disconnected(DisconnectCause::Peer));
    let now = pair.now;
    pair.cm(B).disconnect(now, passive, &[]).unwrap();
    let gone = pair.expect(A, "DISCONNECTED");
    assert_eq!(gone.kind(), EventKind::Disconnected(DisconnectCause::Local));
    pair.expect(A, "TIMEWAIT_EXIT");
    pair.expect(B, "TIMEWAIT_EXIT");
    assert_eq!(pair.node(A).sent_names(), ["REQ", "RTU", "DREQ"]);
    assert_eq!(pair.node(B).sent_names(), ["REP", "DREP"]);
    pair.expect_silence();
    pair.assert_clean(&[active], &[listener, passive]);
}
