//! Queue pair numbers: `connect --qpn`.

use crate::isolated;
use crate::process::*;
use crate::wire::Wire;

/// The queue pair numbers of the REQs, in order; each is seen twice.
fn requested(wire: Wire) -> Vec<u32> {
    const REQ: u16 = 0x10;
    /// Beyond the headers of UDP's payload and of the MAD.
    const LOCAL_QPN: usize = 20 + 24 + 32;
    let datagrams = wire.datagrams();
    let requests = datagrams.iter().filter(|datagram| datagram.attribute == REQ).step_by(2);
    let number = |octets: &[u8]| u32::from_be_bytes([0, octets[0], octets[1], octets[2]]);
    requests.map(|datagram| number(&datagram.payload[LOCAL_QPN..])).collect()
}

#[test]
fn connections_count_up_from_the_number_given() {
    isolated!();
    let (_listener, local) = listen("127.0.0.2:7471");
    for (first, numbers) in
        [("0x1234", [0x1234, 0x1235, 0x1236]), ("16777214", [0xff_fffe, 0xff_ffff, 2])]
    {
        let wire = Wire::tap();
        run(&format!("connect {local} --qpn {first} --count 3")).with(0);
        assert_eq!(requested(wire), numbers);
    }
}

#[test]
fn without_one_each_run_has_others() {
    isolated!();
    let (_listener, local) = listen("127.0.0.2:7471");
    let mut all = Vec::new();
    for _ in 0..2 {
        let wire = Wire::tap();
        run(&format!("connect {local} --count 2")).with(0);
        let numbers = requested(wire);
        assert_eq!(numbers[1], numbers[0] + 1);
        all.extend(numbers);
    }
    // By chance once in four millions.
    assert!(all[0].abs_diff(all[2]) > 1, "{all:?}");
}
