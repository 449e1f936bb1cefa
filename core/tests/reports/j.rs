//! Quality of service.

use nanocm_core::error::OpError;
use nanocm_core::testing::{Side::*, Solo, World};
use nanocm_core::wire::Req;
use nanocm_core::{Id, IdOption, Path, PortSpace, RocePath, Route, State};

/// When the option is set, and to what.
type Setting = (Option<u8>, u8, fn(&mut Solo<'_>, Id, &Route, Option<u8>));

fn set(solo: &mut Solo<'_>, id: Id, tos: Option<u8>) {
    if let Some(tos) = tos {
        solo.cm.set_option(id, IdOption::Tos(tos)).unwrap();
    }
}

fn route(solo: &mut Solo<'_>, id: Id, route: &Route) {
    let to = (solo.peer_ip, 7471).into();
    solo.cm.set_route(solo.now, id, to, route).unwrap();
}

fn before(solo: &mut Solo<'_>, id: Id, to: &Route, tos: Option<u8>) {
    set(solo, id, tos);
    route(solo, id, to);
}

fn after(solo: &mut Solo<'_>, id: Id, to: &Route, tos: Option<u8>) {
    route(solo, id, to);
    set(solo, id, tos);
}

#[test]
fn j1_the_type_of_service_is_on_the_path_and_in_the_req() {
    // DESIGN has no default of the engine's own: what is not set is the route's, which the host
    // configures. The IP header of the engine's own packets is the shell's to show.
    const ROUTES: u8 = 0x20;
    let settings: [Setting; 5] = [
        (Some(104), 104, before),
        (Some(104), 104, after),
        (Some(0), 0, before),
        (Some(0), 0, after),
        (None, ROUTES, before),
    ];
    for (tos, expected, resolve) in settings {
        World::new().solo(|mut solo| {
            let peer = solo.peer();
            let mut path = RocePath::new(solo.ip.into(), peer.ip.into());
            path.traffic_class = ROUTES;
            let id = solo.cm.create_id(PortSpace::Tcp, 0).unwrap();
            resolve(&mut solo, id, &Route::new(Path::Roce(path)), tos);
            solo.connect(id);
            // The transport marks the packet as the path says.
            let mut mad = [0; 256];
            let sent = solo.cm.poll_transmit(solo.now, &mut mad).unwrap();
            let marked = |path| matches!(path, Path::Roce(p) if p.traffic_class == expected);
            assert!(marked(sent.path), "{tos:?}");
            assert!(marked(solo.cm.path(id).unwrap().unwrap()), "{tos:?}: the address handle");
            assert_eq!(Req(&mad).primary_traffic_class(), expected, "{tos:?}");
            // Too late.
            let refused = Err(OpError::InvalidState { state: State::Connect });
            assert_eq!(solo.cm.set_option(id, IdOption::Tos(1)), refused);
            assert!(marked(solo.cm.path(id).unwrap().unwrap()));
            solo.assert_clean(&[id]);
        });
    }
}

#[test]
fn j1_the_peer_answers_with_the_same_marking() {
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let (active, qpn) = (pair.route_to(7471), pair.node(A).qpn());
        let now = pair.now;
        pair.cm(A).set_option(active, IdOption::Tos(104)).unwrap();
        pair.cm(A).connect(now, active, &nanocm_core::ConnParam::new(qpn)).unwrap();
        let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
        let path = pair.cm(B).path(passive).unwrap().unwrap();
        assert!(matches!(path, Path::Roce(p) if p.traffic_class == 104));
        pair.assert_clean(&[active], &[listener, passive]);
    });
}
