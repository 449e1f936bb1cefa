//! Messages with identifiers that nobody knows.
//!
//! Read first: IBTA 12 (what is done in the idle state); facts, wire-formats appendix B.

use super::super::talk::Talk;
use super::super::verdict::{Stop, message, silence};
use super::{Conversation, Needs::Nothing, of};
use nanocm_core::wire::{
    Apr, Attribute, Drep, Dreq, Header, Lap, MAD_LEN, Mad, Mra, Rej, RejectReason, Rep, Rtu,
    SidrRep,
};

pub(super) const TABLE: &[Conversation] = &[
    of("rep-unknown", Nothing, "a REP with unknown IDs", "nothing, or REJ 6 of the REP", |talk| {
        let mut mad = [0; MAD_LEN];
        let (ours, theirs) = ids(talk);
        let tid = talk.new_tid();
        Rep::emit(&mut mad, tid)
            .set_local_comm_id(ours)
            .set_remote_comm_id(theirs)
            .set_local_qpn(talk.peer.new_qpn())
            .set_local_ca_guid(talk.peer.ca_guid);
        let names = [("transaction_id", tid), ("remote_comm_id", ours.into())];
        let what = [("message_rejected", 1), ("reason", 6)];
        let rej = message(Attribute::REJ, &[names, what].concat());
        talk.exchange(&mad, &[silence(), rej]).map(drop)
    }),
    of("rtu-unknown", Nothing, "an RTU with unknown IDs", "nothing", |talk| {
        ignored(talk, |mad, tid| {
            Rtu::emit(mad, tid);
        })
    }),
    of("dreq-unknown", Nothing, "a DREQ with unknown IDs", "DREP with the IDs swapped", |talk| {
        let mut mad = [0; MAD_LEN];
        let (ours, theirs) = ids(talk);
        let tid = talk.new_tid();
        Dreq::emit(&mut mad, tid)
            .set_local_comm_id(ours)
            .set_remote_comm_id(theirs)
            .set_remote_qpn(0x1234);
        let names = [("local_comm_id", theirs.into()), ("remote_comm_id", ours.into())];
        let drep = message(Attribute::DREP, &[&[("transaction_id", tid)][..], &names].concat());
        talk.exchange(&mad, &[drep]).map(drop)
    }),
    of("drep-unknown", Nothing, "a DREP with unknown IDs", "nothing", |talk| {
        ignored(talk, |mad, tid| {
            Drep::emit(mad, tid);
        })
    }),
    of("mra-unknown", Nothing, "an MRA of a REQ with unknown IDs", "nothing", |talk| {
        ignored(talk, |mad, tid| {
            Mra::emit(mad, tid).set_service_timeout(20);
        })
    }),
    of("rej-unknown", Nothing, "a REJ 28 of a REP with unknown IDs", "nothing", |talk| {
        ignored(talk, |mad, tid| {
            Rej::emit(mad, tid).set_message_rejected(nanocm_core::wire::MessageKind::REP);
            Rej(mad).set_reason(RejectReason::CONSUMER);
        })
    }),
    of(
        "rej-timeout-unknown",
        Nothing,
        "a REJ 4 of a connection that never was",
        "nothing",
        |talk| {
            let withdrawal = talk.withdrawal(talk.new_id(), talk.new_tid());
            talk.exchange(&withdrawal, &[silence()]).map(drop)
        },
    ),
    of(
        "lap-unknown",
        Nothing,
        "a LAP with unknown IDs",
        "nothing, or APR with a status other than 0",
        |talk| {
            let mut mad = [0; MAD_LEN];
            let (ours, theirs) = ids(talk);
            let tid = talk.new_tid();
            Lap::emit(&mut mad, tid).set_local_comm_id(ours).set_remote_comm_id(theirs);
            let apr = [1, 2].map(|status| {
                message(Attribute::APR, &[("transaction_id", tid), ("ap_status", status)])
            });
            let [a, b] = apr;
            talk.exchange(&mad, &[silence(), a, b]).map(drop)
        },
    ),
    of("apr-unknown", Nothing, "an APR with unknown IDs", "nothing", |talk| {
        ignored(talk, |mad, tid| {
            Apr::emit(mad, tid);
        })
    }),
    of("sidr-rep-unknown", Nothing, "a SIDR_REP to a request that never was", "nothing", |talk| {
        let mut mad = [0; MAD_LEN];
        SidrRep::emit(&mut mad, talk.new_tid()).set_request_id(talk.new_id()).set_qpn(0x1234);
        talk.exchange(&mad, &[silence()]).map(drop)
    }),
    of("attribute-sap", Nothing, "attribute 0x001b (SAP)", "nothing", |talk| attribute(talk, 0x1b)),
    of(
        "attribute-unknown",
        Nothing,
        "attribute 0x0077, which the class does not have",
        "nothing",
        |talk| attribute(talk, 0x77),
    ),
    of(
        "class-port-info",
        Nothing,
        "Get(ClassPortInfo) of the CM class",
        "GetResp; Linux: with status 0x000c (method and attribute not supported)",
        |talk| {
            let mut mad = [0; MAD_LEN];
            let tid = talk.new_tid();
            // Any CM message's header will do to begin with.
            Drep::emit(&mut mad, tid);
            Header(&mut mad).set_method(0x01).set_attribute(Attribute::CLASS_PORT_INFO);
            talk.any_method = true;
            let names = [("transaction_id", tid), ("method", 0x81)];
            let answer = |status| {
                message(Attribute::CLASS_PORT_INFO, &[&names[..], &[("status", status)]].concat())
            };
            talk.exchange(&mad, &[answer(0), answer(0x0c).linux()]).map(drop)
        },
    ),
];

/// A communication ID of ours, and one that the peer has hardly given to anybody.
fn ids(talk: &Talk<'_>) -> (u32, u32) {
    (talk.new_id(), (talk.peer.random() as u32).max(1))
}

/// A message with unknown IDs that gets no answer. Its communication IDs are written where all but SIDR's
/// have them.
fn ignored(talk: &mut Talk<'_>, emit: impl FnOnce(&mut Mad, u64)) -> Result<(), Stop> {
    let mut mad = [0; MAD_LEN];
    let (ours, theirs) = ids(talk);
    emit(&mut mad, talk.new_tid());
    Drep(&mut mad).set_local_comm_id(ours).set_remote_comm_id(theirs);
    talk.exchange(&mad, &[silence()]).map(drop)
}

fn attribute(talk: &mut Talk<'_>, number: u16) -> Result<(), Stop> {
    ignored(talk, |mad, tid| {
        Drep::emit(mad, tid);
        Header(mad).set_attribute(Attribute(number));
    })
}
