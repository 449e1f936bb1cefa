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

/// The number says that it is the same queue pair: the old connection cannot stand any more.
#[test]
fn a_program_that_was_killed_may_come_back_with_its_number() {
    isolated!();
    let (mut listener, local) = listen("127.0.0.2:7471 --counters");
    let connect = format!("connect {local} --from 127.0.0.1 --qpn 0x1234 --json");
    let mut client = start(&format!("{connect} --hold 60000"));
    client.event("ESTABLISHED");
    let old = listener.event("CONNECT_REQUEST");
    listener.event("ESTABLISHED");
    client.signal("KILL");
    client.end();
    let client = run(&connect);
    assert_eq!(client.events()[0]["reason"], 10);
    client.failed("ECONNREFUSED", "rejected");
    let gone = listener.event("DISCONNECTED");
    assert_eq!((&gone["id"], &gone["cause"]), (&old["id"], &"peer".into()));
    run(&connect).with(0);
    listener.signal("TERM");
    let counted = listener.end().with(0).events().pop().unwrap();
    assert_eq!(counted["stale"], 1, "{counted}");
}
