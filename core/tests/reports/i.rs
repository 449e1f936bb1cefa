//! Addresses and devices.

use nanocm_core::addr::{RocePath, ScopedIp};
use nanocm_core::error::{BindError, ResolveError, errno::ENODEV};
use nanocm_core::testing::{Capacity, Solo, World};
use nanocm_core::wire::{RejectReason, Req};
use nanocm_core::{
    ConnParam, ConnState, EventKind, Gid, Id, IdOption, Outcome, Path, PortEvent, PortSpace,
    QpState, Request, Route, State,
};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn add_address(solo: &mut Solo<'_>, text: &str, ca_guid: u64) {
    let address = ScopedIp::of(addr(text));
    assert!(solo.cm.handle_port_event(solo.now, PortEvent::GidAdded { address, ca_guid }));
}

/// An engine that has these addresses too, each on a device of its own.
fn with_addresses(addresses: &[&str], test: impl Fn(Solo<'_>)) {
    World::new().solo(|mut solo| {
        for (ca_guid, text) in (1..).zip(addresses) {
            add_address(&mut solo, text, ca_guid);
        }
        test(solo);
    });
}

fn idle(solo: &mut Solo<'_>) -> Id {
    solo.cm.create_id(PortSpace::Tcp, 0).unwrap()
}

#[test]
fn i1_a_link_local_destination_without_scope_is_refused_at_once() {
    with_addresses(&["[fe80::1%3]:0"], |mut solo| {
        let (now, id) = (solo.now, idle(&mut solo));
        let to = addr("[fe80::2]:7471");
        let missing = ResolveError::Bind { error: BindError::ScopeMissing };
        assert_eq!(solo.cm.resolve_addr(now, id, None, to, SECOND), Err(missing));
        assert_eq!(solo.cm.state(id), Ok(State::Idle));
        // A bound source says which link.
        solo.cm.bind(id, addr("[fe80::1%3]:0")).unwrap();
        solo.cm.resolve_addr(now, id, None, to, SECOND).unwrap();
        let (request, asked) = solo.cm.poll_request().unwrap();
        let destination = addr("[fe80::2%3]:7471");
        let source = Some(ScopedIp::of(addr("[fe80::1%3]:0")));
        assert_eq!(asked, Request::ResolveAddr { source, destination });
        let [from, remote] = ["fe80::1", "fe80::2"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let mut path = RocePath::new(from.into(), remote.into());
        path.scope = 3;
        let path = Path::Roce(path);
        solo.cm.handle_completion(now, request, Outcome::AddrResolved { path }).unwrap();
        solo.tells(&["ADDR_RESOLVED"]);
        solo.cm.set_route(now, id, destination, &Route::new(path)).unwrap();
        solo.connect(id);
        let req = solo.says(&["REQ"])[0];
        let header = Req(&req).ip_cm().unwrap();
        assert_eq!((header.source, header.destination), (from.into(), remote.into()));
        assert_eq!(Req(&req).primary_local_gid(), Gid::from_ip(from));
        assert_eq!(Req(&req).local_ca_guid(), 1, "the device on that link");
        solo.assert_clean(&[id]);
    });
}

/// Everything but `destroy`, by the errno that it gives.
fn try_everything(solo: &mut Solo<'_>, id: Id) -> Vec<i32> {
    let (now, here) = (solo.now, SocketAddr::new(solo.ip, 7471));
    let (param, there) = (ConnParam::new(solo.qpn()), SocketAddr::new(solo.peer_ip, 7471));
    let route = Route::new(solo.path(&solo.peer_at_home()));
    let cm = &mut solo.cm;
    let binds = [cm.bind(id, here).map(drop), cm.propose_port(id, here, None).map(drop)];
    let resolves = [
        cm.resolve_addr(now, id, None, there, SECOND),
        cm.resolve_route(now, id, SECOND),
        cm.set_route(now, id, there, &route),
    ];
    let connects = [
        cm.connect(now, id, &param),
        cm.accept(now, id, &param),
        cm.reject(now, id, RejectReason::CONSUMER, &[]),
        cm.establish(now, id, &[]),
        cm.notify_established(now, id),
        cm.disconnect(now, id, &[]),
        cm.reset(id),
        cm.qp_attrs(id, QpState::Init).map(drop),
    ];
    let mut errnos = vec![
        cm.listen(id, 0).unwrap_err().errno(),
        cm.set_option(id, IdOption::AckTimeout(14)).unwrap_err().errno(),
    ];
    errnos.extend(binds.map(|done| done.unwrap_err().errno()));
    errnos.extend(resolves.map(|done| done.unwrap_err().errno()));
    errnos.extend(connects.map(|done| done.unwrap_err().errno()));
    errnos
}

#[test]
fn i5_a_device_that_goes_is_told_once_in_every_state() {
    World::new().of(Capacity::of(64)).solo(|mut solo| {
        add_address(&mut solo, "10.0.0.3:0", 0x77);
        let wildcard = |solo: &mut Solo<'_>, space| {
            let id = solo.cm.create_id(space, 0).unwrap();
            solo.cm.bind(id, addr("0.0.0.0:7471")).unwrap();
            solo.cm.listen(id, 0).unwrap();
            id
        };
        let listeners = [PortSpace::Tcp, PortSpace::Udp].map(|space| wildcard(&mut solo, space));
        // One of each state: of the identifier, then of the connection.
        let bound = idle(&mut solo);
        solo.cm.bind(bound, SocketAddr::new(solo.ip, 0)).unwrap();
        let asking = idle(&mut solo);
        let (from, to) = (SocketAddr::new(solo.ip, 0), SocketAddr::new(solo.peer_ip, 4420));
        solo.cm.resolve_addr(solo.now, asking, Some(from), to, SECOND).unwrap();
        let peer = solo.peer();
        let mut ids = vec![bound, asking, solo.listen(7472, 0), solo.route_to(&peer)];
        for state in ConnState::ALL {
            ids.extend([true, false].map(|active| solo.bring(state, active).id));
        }
        solo.remove_device();
        let told: Vec<_> = std::iter::from_fn(|| solo.cm.poll_event()).collect();
        for &id in &ids {
            let its = told.iter().filter(|event| event.id == id);
            let removals = its.filter(|event| event.kind == EventKind::DeviceRemoval);
            assert_eq!(removals.count(), 1, "{id:?}");
            assert_eq!(solo.cm.state(id), Ok(State::DeviceRemoval));
            assert_eq!(solo.cm.owes_disconnected(id), Ok(false));
            let errnos = try_everything(&mut solo, id);
            assert_eq!(errnos, vec![ENODEV; errnos.len()]);
        }
        assert!(told.iter().all(|event| ids.contains(&event.id)), "nobody else");
        solo.says(&[]);
        // The wildcard goes on at the other device.
        solo.ip = addr("10.0.0.3:0").ip();
        let it = solo.bring(ConnState::Established, false);
        solo.assert_clean(&[&ids[..], &listeners, &[it.id]].concat());
    });
}

#[test]
fn i6_a_gid_on_roce_is_the_ip_address_it_spells() {
    // The engine has socket addresses alone; the question what an AF_IB address is on RoCE is
    // answered by Gid::to_ip, and by a refusal where that names no interface.
    with_addresses(&["192.0.2.1:0"], |mut solo| {
        let mapped = Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1]);
        assert_eq!(mapped.to_ip(), addr("192.0.2.1:0").ip());
        let id = idle(&mut solo);
        solo.cm.bind(id, addr("[::ffff:192.0.2.1]:7471")).unwrap();
        assert_eq!(solo.cm.local_addr(id), Ok(addr("192.0.2.1:7471")));
        // One made of a MAC address is link-local: refused without its interface, never a hang.
        let eui = addr("[fe80::5054:ff:fe12:3456]:7471");
        let other = idle(&mut solo);
        assert_eq!(solo.cm.bind(other, eui), Err(BindError::ScopeMissing));
        let missing = ResolveError::Bind { error: BindError::ScopeMissing };
        let asked = solo.cm.resolve_addr(solo.now, other, None, eui, SECOND);
        assert_eq!(asked, Err(missing));
        assert_eq!(solo.cm.poll_request(), None);
        solo.assert_clean(&[id, other]);
    });
}

/// A request for port 9000 that comes in at this address.
fn asked_at(solo: &mut Solo<'_>, address: &str) -> (Id, Id) {
    let local = ScopedIp::of(addr(address));
    let mut peer = solo.peer();
    peer.ip = if local.gid.is_v4() { peer.ip } else { "fe80::99".parse().unwrap() };
    let mut path = RocePath::new(local.gid, peer.ip.into());
    path.scope = local.scope;
    let req = peer.req(local.gid.to_ip(), 9000);
    let _ = solo.cm.handle_datagram(solo.now, &Path::Roce(path), &req);
    let told = solo.tells(&["CONNECT_REQUEST"])[0];
    let EventKind::ConnectRequest { listener, .. } = told.kind else { panic!("{told:?}") };
    (told.id, listener)
}

#[test]
fn i7_a_zone_selects_the_device_and_a_wildcard_takes_any() {
    // Reading "fe80::1%eth0" is the shell's; here the zone is a number.
    let devices = ["192.0.2.1:0", "192.0.2.50:0", "[fe80::1%2]:0", "[fe80::1%3]:0"];
    with_addresses(&devices, |mut solo| {
        let nowhere = idle(&mut solo);
        let ambiguous = solo.cm.bind(nowhere, addr("[fe80::1]:9000"));
        assert_eq!(ambiguous, Err(BindError::ScopeMissing), "there are two of them");
        // Who listens, and at which device each of them is asked.
        let groups: [&[(&str, &[&str])]; 3] = [
            &[("[fe80::1%3]:9000", &devices[3..]), ("[fe80::1%2]:9000", &devices[2..3])],
            &[("0.0.0.0:9000", &devices[..2])],
            &[("[::]:9000", &devices)],
        ];
        for group in groups {
            let listeners: Vec<_> = group
                .iter()
                .map(|(local, _)| {
                    let id = idle(&mut solo);
                    solo.cm.bind(id, addr(local)).unwrap();
                    solo.cm.listen(id, 0).unwrap();
                    id
                })
                .collect();
            for ((local, at), &listener) in group.iter().zip(&listeners) {
                for device in *at {
                    let (request, asked) = asked_at(&mut solo, device);
                    assert_eq!(asked, listener, "{local} at {device}");
                    solo.cm.destroy(solo.now, request).unwrap();
                    solo.says(&["REJ"]);
                }
            }
            for id in listeners {
                solo.cm.destroy(solo.now, id).unwrap();
            }
        }
        solo.assert_clean(&[nowhere]);
    });
}
