//! REQs that are refused, and REQs that are odd and accepted.
//!
//! Read first: IBTA 12 (REQ, reject reasons), Annex A11 (IP CM header); facts, wire-formats appendix B.

use super::super::talk::{Call, Talk};
use super::super::verdict::{Deviation, Stop, message, place, silence};
use super::{Conversation, Needs::Acceptor, Needs::Listener, of};
use nanocm::PortSpace;
use nanocm::core::Gid;
use nanocm_core::wire::{Attribute, Header, Mad, Rej, Req};
use std::net::IpAddr;

const REJ_28: &str = "REJ 28";
const ACCEPTED_AS_IT_IS: &str = "REP";

/// Where the private data, and with it the IP CM header, begins in the MAD.
const IP_CM: usize = 164;

/// The CM decides; the listener need not.
pub(super) const REFUSED: &[Conversation] = &[
    of("ip-cm-version", Listener, "IP CM header version 1.0", REJ_28, |talk| {
        bad_header(talk, |mad| mad[IP_CM] = 0x10)
    }),
    of("ip-cm-ip-version", Listener, "IP CM header with IP version 5", REJ_28, |talk| {
        bad_header(talk, |mad| mad[IP_CM + 1] = 0x50)
    }),
    of(
        "ip-cm-destination",
        Listener,
        "IP CM header with a destination address that is not the peer's",
        REJ_28,
        |talk| bad_header(talk, |mad| mad[IP_CM + 35] ^= 0x55),
    ),
    of("ip-cm-zero", Listener, "a REQ whose private data is all zero", REJ_28, |talk| {
        bad_header(talk, |mad| mad[IP_CM..].fill(0))
    }),
    of(
        "foreign-gid",
        Listener,
        "a REQ whose primary remote GID is not the peer's",
        "REJ 12 with a GID of the peer's as additional information",
        |talk| {
            let mut call = talk.call();
            let foreign = Gid::from_ip(IpAddr::from([192, 0, 2, 77]));
            call.req().set_primary_remote_gid(foreign);
            let rej = talk.exchange(&call.mad, &[call.rej(12)])?;
            let Some(rej) = rej else { return Ok(()) };
            let info = Rej(&rej).additional_info();
            let Some(gid) = info.first_chunk().filter(|_| info.len() == 16).map(|gid| Gid(*gid))
            else {
                let (expected, seen) = ("16 (a GID)", info.len().to_string());
                return Err(Deviation::stop(place(&rej, "reject_info_length"), expected, seen));
            };
            // The peer may have others than the one that we know.
            let is_anothers = [foreign, talk.peer.local_gid()].contains(&gid);
            if is_anothers || gid.is_wildcard() || gid.is_multicast() {
                let expected = format!("{}, or another one of the peer's", talk.peer.remote_gid());
                let at = place(&rej, "ari");
                return Err(Deviation::stop(at, expected, gid.to_string()));
            }
            Ok(())
        },
    ),
    of(
        "transport-uc",
        Listener,
        "a REQ for UC to a listener for RC",
        "REJ 9; Linux: REJ 28",
        |talk| transport(talk, 1, 0),
    ),
    of("transport-rd", Listener, "a REQ for RD", "REJ 9; Linux: REJ 28", |talk| {
        transport(talk, 2, 0)
    }),
    of(
        "transport-xrc",
        Listener,
        "a REQ for XRC to a listener for RC",
        "REJ 9; Linux: REJ 28",
        |talk| transport(talk, 3, 1),
    ),
    of(
        "req-to-udp",
        Listener,
        "a REQ to the service ID of the port in RDMA_PS_UDP",
        "REJ 9, or 8 if nobody has it; Linux: REJ 28",
        |talk| {
            let mut call = talk.call();
            let service = talk.service(PortSpace::Udp);
            call.req().set_service_id(service);
            talk.exchange(&call.mad, &[call.rej(9), call.rej(8), call.rej(28).linux()]).map(drop)
        },
    ),
    of(
        "service-id-high",
        Listener,
        "the listener's service ID with a bit in the top octet set",
        "REJ 8",
        |talk| {
            let mut call = talk.call();
            let mut service = talk.service(PortSpace::Tcp);
            service.0 |= 1 << 60;
            call.req().set_service_id(service);
            talk.exchange(&call.mad, &[call.rej(8)]).map(drop)
        },
    ),
];

/// The listener may have to decide.
pub(super) const ACCEPTED: &[Conversation] = &[
    of("mtu-256", Acceptor, "a REQ for path MTU 1 (256 octets)", ACCEPTED_AS_IT_IS, |talk| {
        accepted(talk, |req| {
            req.set_path_mtu(1);
        })
    }),
    of("mtu-4096", Acceptor, "a REQ for path MTU 5 (4096 octets)", "REP, or REJ 26", |talk| {
        let mut call = talk.call();
        call.req().set_path_mtu(5);
        let wants = [call.rep(), call.rej(26)];
        talk.exchange(&call.mad, &wants).map(drop)
    }),
    of("mtu-0", Acceptor, "a REQ for path MTU 0, which is none", "REJ 26; Linux: REP", |talk| {
        let mut call = talk.call();
        call.req().set_path_mtu(0);
        let wants = [call.rej(26), call.rep().linux()];
        talk.exchange(&call.mad, &wants).map(drop)
    }),
    of("mtu-6", Acceptor, "a REQ for path MTU 6, which is none", "REJ 26; Linux: REJ 28", |talk| {
        let mut call = talk.call();
        call.req().set_path_mtu(6);
        let wants = [call.rej(26), call.rej(28).linux()];
        talk.exchange(&call.mad, &wants).map(drop)
    }),
    of("qpn-0", Acceptor, "a REQ from queue pair 0", "REJ; Linux: REP", |talk| {
        let mut call = talk.call();
        call.req().set_local_qpn(0);
        let wants = [any_rej(&call), call.rep().linux()];
        talk.exchange(&call.mad, &wants).map(drop)
    }),
    of("guid-0", Acceptor, "a REQ with CA GUID 0", ACCEPTED_AS_IT_IS, |talk| {
        accepted(talk, |req| {
            req.set_local_ca_guid(0);
        })
    }),
    of(
        "req-pkey",
        Acceptor,
        "a REQ for P_Key 0x8001, in a right frame",
        "REJ, or REP if the peer is in that partition; Linux 6.1: nothing",
        |talk| {
            let mut call = talk.call();
            call.req().set_partition_key(0x8001);
            let wants = [any_rej(&call), call.rep(), silence().linux()];
            talk.exchange(&call.mad, &wants).map(drop)
        },
    ),
    of("req-pkey-limited", Acceptor, "a REQ for P_Key 0x7fff", ACCEPTED_AS_IT_IS, |talk| {
        accepted(talk, |req| {
            req.set_partition_key(0x7fff);
        })
    }),
    of(
        "path-fields",
        Acceptor,
        "a REQ with LIDs 0, hop limit 255, and SL, traffic class, flow label and rate all ones",
        "REP, or REJ 13 to 17 or 32 of one of these fields",
        |talk| {
            let mut call = talk.call();
            call.req()
                .set_primary_local_lid(0)
                .set_primary_remote_lid(0)
                .set_primary_sl(15)
                .set_primary_flow_label(0xf_ffff)
                .set_primary_packet_rate(63)
                .set_primary_traffic_class(0xff)
                .set_primary_hop_limit(255);
            let refusals = [13, 14, 15, 16, 17, 32].map(|reason| call.rej(reason));
            talk.exchange(&call.mad, &[&[call.rep()], &refusals[..]].concat()).map(drop)
        },
    ),
    of(
        "qp-fields",
        Acceptor,
        "a REQ with PSN 0xffffff, SRQ, end-to-end flow control, no reads or atomics",
        ACCEPTED_AS_IT_IS,
        |talk| {
            accepted(talk, |req| {
                req.set_starting_psn(0xff_ffff)
                    .set_srq(true)
                    .set_end_to_end_flow_control(true)
                    .set_responder_resources(0)
                    .set_initiator_depth(0);
            })
        },
    ),
    of(
        "ece-modifier",
        Acceptor,
        "a REQ with attribute modifier 0x12345678 and no ECE vendor",
        ACCEPTED_AS_IT_IS,
        |talk| {
            let mut call = talk.call();
            Header(&mut call.mad).set_attribute_modifier(0x1234_5678);
            talk.accepted_as(&call).map(drop)
        },
    ),
    of(
        "source-port-0",
        Acceptor,
        "an IP CM header with source port 0",
        ACCEPTED_AS_IT_IS,
        |talk| {
            let mut call = talk.call();
            call.mad[IP_CM + 2..IP_CM + 4].fill(0);
            talk.accepted_as(&call).map(drop)
        },
    ),
    of(
        "timeouts-0",
        Acceptor,
        "a REQ with both CM response timeouts 0",
        ACCEPTED_AS_IT_IS,
        |talk| {
            accepted(talk, |req| {
                req.set_remote_cm_response_timeout(0).set_local_cm_response_timeout(0);
            })
        },
    ),
];

/// A REQ with this change is accepted; then the connection is ended, as a matter of course.
fn accepted(talk: &mut Talk<'_>, change: impl FnOnce(&mut Req<&mut Mad>)) -> Result<(), Stop> {
    let mut call = talk.call();
    change(&mut call.req());
    talk.accepted_as(&call).map(drop)
}

fn bad_header(talk: &mut Talk<'_>, change: impl FnOnce(&mut Mad)) -> Result<(), Stop> {
    let mut call = talk.call();
    change(&mut call.mad);
    talk.exchange(&call.mad, &[call.rej(28)]).map(drop)
}

fn transport(talk: &mut Talk<'_>, kind: u8, extended: u8) -> Result<(), Stop> {
    let mut call = talk.call();
    call.req().set_transport_service_type(kind).set_extended_transport_type(extended);
    talk.exchange(&call.mad, &[call.rej(9), call.rej(28).linux()]).map(drop)
}

fn any_rej(call: &Call) -> super::super::verdict::Want {
    let names = [("transaction_id", call.tid), ("remote_comm_id", call.id.into())];
    message(Attribute::REJ, &names)
}
