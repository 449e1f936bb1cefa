//! What a listener can be asked, and by whom: the packet's own addresses count, not what it says.

use nanocm_core::testing::{Solo, World};
use nanocm_core::wire::{IpCmHeader, Req, SidrReq};
use nanocm_core::{Capacity, Gid, PortEvent, PortSpace, QpState, ScopedIp};
use std::net::{IpAddr, SocketAddr};

fn add(solo: &mut Solo<'_>, last: u8, guid: u64) {
    let address = ScopedIp::new(Gid::from_ip([10, 0, 1, last].into()), 0);
    assert!(
        solo.cm.handle_port_event(solo.now, PortEvent::GidAdded { address, ca_guid: guid }),
        "{last}"
    );
}

#[test]
fn a_listener_at_one_address_is_not_reached_through_another() {
    World::new().of(Capacity { gids: 4, ..Capacity::of(4) }).solo(|mut solo| {
        add(&mut solo, 5, 77);
        let private: IpAddr = [10, 0, 1, 5].into();
        let id = solo.cm.create_id(PortSpace::Tcp, 0).unwrap();
        solo.cm.bind(id, SocketAddr::new(private, 7471)).unwrap();
        solo.cm.listen(id, 0).unwrap();
        let peer = solo.peer();
        // Packet and primary path: to `solo.ip`, where nobody listens.
        let mut req = peer.req(solo.ip, 7471);
        Req(&mut req).set_ip_cm(&IpCmHeader {
            source_port: 1,
            source: peer.ip.into(),
            destination: private.into(),
        });
        let _ = solo.hears(&peer, &req);
        solo.tells(&[]);
    });
}

#[test]
fn a_datagram_service_at_one_address_is_not_reached_through_another() {
    World::new().of(Capacity { gids: 4, ..Capacity::of(4) }).solo(|mut solo| {
        add(&mut solo, 5, 77);
        let private: IpAddr = [10, 0, 1, 5].into();
        let id = solo.cm.create_id(PortSpace::Udp, 0).unwrap();
        solo.cm.bind(id, SocketAddr::new(private, 7471)).unwrap();
        solo.cm.listen(id, 0).unwrap();
        let peer = solo.peer();
        let mut req = peer.sidr_req(solo.ip, 7471);
        SidrReq(&mut req).set_ip_cm(&IpCmHeader {
            source_port: 1,
            source: peer.ip.into(),
            destination: private.into(),
        });
        let _ = solo.hears(&peer, &req);
        solo.tells(&[]);
    });
}

#[test]
fn a_req_comes_in_where_its_path_says() {
    World::new().of(Capacity { gids: 4, ..Capacity::of(4) }).solo(|mut solo| {
        add(&mut solo, 5, 77);
        let private: IpAddr = [10, 0, 1, 5].into();
        let id = solo.cm.create_id(PortSpace::Tcp, 0).unwrap();
        solo.cm.bind(id, SocketAddr::new(private, 7471)).unwrap();
        solo.cm.listen(id, 0).unwrap();
        let peer = solo.peer();
        let req = peer.req(private, 7471);
        // The packet itself is for solo.ip.
        let _ = solo.hears(&peer, &req);
        solo.tells(&[]);
    });
}

#[test]
fn the_peers_address_is_the_packets_source() {
    World::new().solo(|mut solo| {
        let _ = solo.listen(7471, 4);
        let peer = solo.peer();
        let mut req = peer.req(solo.ip, 7471);
        let lie: IpAddr = [192, 0, 2, 99].into();
        Req(&mut req).set_ip_cm(&IpCmHeader {
            source_port: 1,
            source: lie.into(),
            destination: solo.ip.into(),
        });
        let _ = solo.hears(&peer, &req);
        if let Some(event) = solo.cm.poll_event() {
            let addr = solo.cm.peer_addr(event.id).unwrap();
            assert_eq!(addr.ip(), peer.ip, "REQ came from {}", peer.ip);
        }
    });
}

#[test]
fn a_req_with_a_path_mtu_that_is_none_is_refused() {
    for mtu in [0, 6, 9, 15] {
        World::new().solo(|mut solo| {
            let _ = solo.listen(7471, 4);
            let peer = solo.peer();
            let mut req = peer.req(solo.ip, 7471);
            Req(&mut req).set_path_mtu(mtu);
            let _ = solo.hears(&peer, &req);
            let event = solo.cm.poll_event();
            if let Some(event) = event {
                let attrs = solo.cm.qp_attrs(event.id, QpState::ReadyToReceive).unwrap();
                panic!("mtu {mtu} goes to the verbs as {}", attrs.path_mtu);
            }
        });
    }
}
