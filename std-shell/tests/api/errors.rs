//! Errors say who, what and why, with one errno for each cause.

use crate::world::*;
use nanocm::core::error::{BindError, ConnectError};
use nanocm::{Cause, ConnParam, Deadline, Drive, Error, PortSpace, RejectReason};
use std::io;
use std::net::SocketAddr;

#[track_caller]
fn says(error: &Error, errno: i32, text: &str) {
    assert_eq!(error.to_string(), text);
    assert_eq!(error.errno(), errno, "{error}");
}

#[test]
fn an_address_that_is_not_ours() {
    let world = World::new(Drive::Thread);
    let foreign = "192.0.2.1:1".parse().unwrap();
    let error = world.client.listen(foreign, 0).unwrap_err();
    says(&error, libc::EADDRNOTAVAIL, "bind 192.0.2.1:1: 192.0.2.1 is not an address of this host");
    assert_eq!(error.local, Some(foreign));
    assert!(error.advice().is_some());
    world.assert_clean();
}

#[test]
fn a_port_that_is_taken() {
    let world = World::new(Drive::Thread);
    let listener = world.listen();
    let error = world.server.listen(at(SERVER), 0).unwrap_err();
    says(&error, libc::EADDRINUSE, "bind 10.0.0.2:4420: the port is in use by another RDMA ID");
    assert!(matches!(error.cause, Cause::Bind(BindError::PortInUse)));
    drop(listener);
    drop(world.listen());
}

#[test]
fn an_address_of_another_manager() {
    let world = World::new(Drive::Thread);
    world.client.open(at(CLIENT)).unwrap();
    let other = world.net.endpoint(&[CLIENT]).unwrap();
    let other = nanocm::Cm::over(other, quick(3), nanocm::Capacity::of(4), Drive::Thread).unwrap();
    let error = other.open(at(CLIENT)).unwrap_err();
    assert_eq!(error.errno(), libc::EADDRINUSE);
    let Cause::Open(open) = &error.cause else { panic!("{error}") };
    assert_eq!(open.holder().unwrap().pid, Some(std::process::id()));
    let me = format!("(pid {}): one CM per address", std::process::id());
    assert!(error.to_string().ends_with(&me), "{error}");
}

#[test]
fn nobody_listening() {
    let world = World::new(Drive::Thread);
    world.server.open(at(SERVER)).unwrap();
    let error = world.client.connect(at(SERVER), soon()).unwrap_err();
    let local = error.local.unwrap();
    says(
        &error,
        libc::ECONNREFUSED,
        &format!(
            "connect {local} -> 10.0.0.2:4420: rejected with reason 8: nothing listens on that \
             service ID (RDMA tcp port 4420)"
        ),
    );
    let Cause::Rejected(rejection) = error.cause else { panic!("not rejected") };
    assert_eq!(rejection.reason, RejectReason::INVALID_SERVICE_ID);
}

#[test]
fn nothing_answering() {
    let world = World::new(Drive::Thread);
    let error = world.client.connect(at(SILENT), Deadline::after(millis(1))).unwrap_err();
    assert!(error.to_string().ends_with("10.0.0.3:4420: no answer before the deadline"), "{error}");
    assert!(error.advice().unwrap().contains("4791"));
    let nobody = SocketAddr::new([10, 0, 0, 9].into(), 1);
    let error = world.client.connect(nobody, Deadline::NEVER).unwrap_err();
    assert!(error.to_string().ends_with("nothing answers UDP 4791 at that address"), "{error}");
}

#[test]
fn no_way_to_the_peer() {
    let world = World::new(Drive::Thread);
    let v6 = "[2001:db8::1]:1".parse().unwrap();
    let error = world.client.connect(v6, soon()).unwrap_err();
    says(&error, libc::ENETUNREACH, "find the way [2001:db8::1]:1: Network is unreachable");
}

#[test]
fn private_data_that_does_not_fit() {
    let world = World::new(Drive::Thread);
    let channel = world.client.channel().unwrap();
    let id = routed(&world.client, &channel, at(SERVER));
    let mut param = ConnParam::new(0x4000);
    param.private_data = &[0; 57];
    let error = id.connect(&param).unwrap_err();
    let too_long = ConnectError::PrivateDataTooLong { limit: 56 };
    assert!(matches!(error.cause, Cause::Connect(why) if why == too_long), "{error}");
    assert_eq!(error.errno(), libc::EMSGSIZE);
    assert!(error.to_string().ends_with("private data too long: the message takes 56 octets"));
}

#[test]
fn a_call_at_the_wrong_time() {
    let world = World::new(Drive::Thread);
    let channel = world.client.channel().unwrap();
    let id = world.client.create_id(&channel, PortSpace::Tcp).unwrap();
    let error = id.listen(0).unwrap_err();
    says(&error, libc::EINVAL, "listen: an ID in IDLE cannot listen; bind it first");
    assert!(id.connect(&ConnParam::new(1)).is_err());
    assert!(id.disconnect().is_err());
    let error = io::Error::from(id.establish().unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}
