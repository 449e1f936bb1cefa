use super::*;
use crate::get::{ncm_conn_state, ncm_state};
use crate::types::{ncm_disposition, ncm_event_kind};
use nanocm_core::{ConnState, EventKind, IgnoreReason, State};
use std::collections::BTreeSet;

fn text(pointer: *const c_char) -> &'static str {
    // SAFETY: names are static strings.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
}

/// Report C3.
#[test]
fn c3_every_reject_reason_has_a_name_and_a_text() {
    let (mut names, mut texts) = (BTreeSet::new(), BTreeSet::new());
    for reason in (0..=255).chain([65_535, 65_536, u32::MAX]) {
        let (name, words) =
            (text(ncm_reject_reason_name(reason)), text(ncm_reject_reason_text(reason)));
        if matches!(reason, 1..=33 | 35) {
            let core = RejectReason(reason as u16);
            assert_eq!((Some(name), words), (core.name(), core.text()));
            assert!(names.insert(name) && texts.insert(words), "{name} is said twice");
        } else {
            assert_eq!((name, words), ("unknown", "the peer gave a reason we don't know"));
        }
    }
}

#[test]
fn every_sidr_status_has_a_name_and_a_text() {
    for status in (0..=255).chain([256, u32::MAX]) {
        let (name, words) =
            (text(ncm_sidr_status_name(status)), text(ncm_sidr_status_text(status)));
        if status <= 5 {
            let core = SidrStatus(status as u8);
            assert_eq!((Some(name), words), (core.name(), core.text()));
        } else {
            assert_eq!((name, words), ("unknown", "the peer gave a status we don't know"));
        }
    }
}

#[test]
fn states_have_the_cores_names_and_their_numbers() {
    for &state in &State::ALL {
        let number = STATES.iter().position(|&known| known == state);
        let number = number.unwrap_or_else(|| panic!("{state} has no number in C")) as u32;
        assert_eq!(text(ncm_state_name(number)), state.name());
    }
    for &state in &ConnState::ALL {
        let number = CONN_STATES.iter().position(|&known| known == state);
        let number = number.unwrap_or_else(|| panic!("{state} has no number in C")) as u32;
        assert_eq!(text(ncm_conn_state_name(number)), state.name());
    }
    assert_eq!(STATES[ncm_state::NCM_STATE_DEVICE_REMOVAL as usize], State::DeviceRemoval);
    assert_eq!(
        CONN_STATES[ncm_conn_state::NCM_CONN_SIDR_REP_SENT as usize],
        ConnState::SidrRepSent
    );
    assert_eq!(text(ncm_state_name(STATES.len() as u32)), "unknown");
    assert_eq!(text(ncm_conn_state_name(u32::MAX)), "unknown");
}

#[test]
fn dispositions_have_the_cores_names() {
    for &reason in IgnoreReason::ALL {
        let place = IGNORED.iter().position(|&known| known == reason);
        let place = place.unwrap_or_else(|| panic!("{} has no number in C", reason.name()));
        assert_eq!(text(ncm_disposition_name((FIRST_IGNORED + place) as u32)), reason.name());
    }
    let last = ncm_disposition::NCM_IGNORED_HALF_OPEN as usize;
    assert_eq!(IGNORED[last - FIRST_IGNORED], IgnoreReason::HalfOpen);
    assert_eq!(text(ncm_disposition_name(0)), "accepted");
    assert_eq!(text(ncm_disposition_name(1)), "duplicate");
    for unknown in [2, (FIRST_IGNORED + IGNORED.len()) as u32, u32::MAX] {
        assert_eq!(text(ncm_disposition_name(unknown)), "unknown");
    }
}

#[test]
fn events_have_the_cores_names() {
    use ncm_event_kind::*;
    for (kind, core) in [
        (NCM_EVENT_ADDR_RESOLVED, EventKind::AddrResolved),
        (NCM_EVENT_ADDR_ERROR, EventKind::AddrError(1)),
        (NCM_EVENT_ROUTE_RESOLVED, EventKind::RouteResolved),
        (NCM_EVENT_ROUTE_ERROR, EventKind::RouteError(1)),
        (NCM_EVENT_CONNECT_RESPONSE, EventKind::ConnectResponse { peer: Default::default() }),
        (NCM_EVENT_CONNECT_ERROR, EventKind::ConnectError(1)),
        (NCM_EVENT_REJECTED, EventKind::Rejected(RejectReason(1))),
        (NCM_EVENT_ESTABLISHED, EventKind::Established),
        (NCM_EVENT_DISCONNECTED, EventKind::Disconnected(Default::default())),
        (NCM_EVENT_DEVICE_REMOVAL, EventKind::DeviceRemoval),
        (NCM_EVENT_ADDR_CHANGE, EventKind::AddrChange),
        (NCM_EVENT_TIMEWAIT_EXIT, EventKind::TimewaitExit),
    ] {
        assert_eq!(text(ncm_event_name(kind as u32)), core.name());
        assert_eq!(format!("{kind:?}"), format!("NCM_EVENT_{}", core.name()));
    }
    assert_eq!(text(ncm_event_name(NCM_EVENT_CONNECT_REQUEST as u32)), "CONNECT_REQUEST");
    assert_eq!(text(ncm_event_name(NCM_EVENT_UNREACHABLE as u32)), "UNREACHABLE");
    assert_eq!(text(ncm_event_name(NCM_EVENT_OTHER as u32)), "unknown");
}
