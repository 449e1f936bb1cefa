//! BTH, DETH, ICRC and MAD header. What they carry is a REQ to a service ID that nobody has: whoever takes
//! the frame answers REJ 8.
//!
//! Read first: Annex A17; IBTA 9 (BTH, DETH), 13 (MAD header); facts, wire-formats §6.3.

use super::super::talk::Talk;
use super::super::verdict::{Stop, message, silence};
use super::{Conversation, Needs::Nothing, of};
use nanocm_core::wire::{Attribute, Header};

const REJ_8: &str = "REJ 8";
const DROPPED: &str = "nothing";

pub(super) const TABLE: &[Conversation] = &[
    of("no-listener", Nothing, "a REQ to a service ID that nobody has", REJ_8, |talk| {
        answered(talk, |_| {})
    }),
    of(
        "tid-64-bits",
        Nothing,
        "the same, all bits of the transaction ID in use",
        "REJ 8 with that transaction ID",
        |talk| {
            let mut call = talk.call_nobody();
            call.tid |= 0x8000_0000_8000_0001;
            let tid = call.tid;
            Header(&mut call.mad).set_transaction_id(tid);
            talk.exchange(&call.mad, &[call.rej(8)]).map(drop)
        },
    ),
    of(
        "mad-status",
        Nothing,
        "MAD header with status 0x001c and attribute modifier 0xffffffff",
        REJ_8,
        |talk| {
            answered(talk, |p| {
                p[24..26].copy_from_slice(&[0, 0x1c]);
                p[40..44].fill(0xff);
            })
        },
    ),
    of(
        "bth-soft-bits",
        Nothing,
        "BTH with SE, MigReq, FECN, BECN and reserved bits set, AckReq clear, PSN 0xffffff",
        REJ_8,
        |talk| {
            answered(talk, |p| {
                p[1] = 0xc0;
                p[4] = 0xff;
                p[8] = 0x7f;
                p[9..12].fill(0xff);
            })
        },
    ),
    of(
        "pkey-limited",
        Nothing,
        "BTH P_Key 0x7fff (limited member of the default partition)",
        REJ_8,
        |talk| answered(talk, |p| p[2..4].copy_from_slice(&[0x7f, 0xff])),
    ),
    of("source-qpn", Nothing, "DETH source QPN 0x55", "REJ 8, to queue pair 1 or 0x55", |talk| {
        talk.our_qp = 0x55;
        answered(talk, |p| p[17..20].copy_from_slice(&[0, 0, 0x55]))
    }),
    of(
        "immediate",
        Nothing,
        "opcode 0x65 (UD SEND only with immediate)",
        "REJ 8, or nothing",
        |talk| {
            let call = talk.call_nobody();
            let payload = talk.odd_frame(&call.mad, |p| {
                p[0] = 0x65;
                p.splice(20..20, [0, 0, 0, 1]);
            });
            talk.exchange_payload(&payload, &[call.rej(8), silence()]).map(drop)
        },
    ),
    of("icrc-bit", Nothing, "an ICRC that is wrong in one bit", DROPPED, |talk| {
        spoiled(talk, |crc| crc[0] ^= 1)
    }),
    of("icrc-zero", Nothing, "ICRC 0", DROPPED, |talk| spoiled(talk, |crc| crc.fill(0))),
    of("icrc-swapped", Nothing, "the ICRC most significant octet first", DROPPED, |talk| {
        spoiled(talk, |crc| crc.reverse())
    }),
    of(
        "icrc-covers-mad",
        Nothing,
        "a bit of the MAD changed after the ICRC was made",
        DROPPED,
        |talk| {
            let call = talk.call_nobody();
            let mut payload = talk.peer.frame(&call.mad);
            payload[275] ^= 1;
            talk.exchange_payload(&payload, &[silence()]).map(drop)
        },
    ),
    of("pkey-8001", Nothing, "BTH P_Key 0x8001", DROPPED, |talk| {
        dropped(talk, |p| p[2..4].copy_from_slice(&[0x80, 0x01]))
    }),
    of("pkey-0", Nothing, "BTH P_Key 0", DROPPED, |talk| dropped(talk, |p| p[2..4].fill(0))),
    of("qkey", Nothing, "DETH Q_Key 0x80010001", DROPPED, |talk| dropped(talk, |p| p[15] = 1)),
    of("tver", Nothing, "BTH transport version 1", DROPPED, |talk| dropped(talk, |p| p[1] |= 1)),
    of("dest-qpn-0", Nothing, "BTH destination QPN 0", DROPPED, |talk| dropped(talk, |p| p[7] = 0)),
    of("dest-qpn-unknown", Nothing, "BTH destination QPN 0xabcdef", DROPPED, |talk| {
        dropped(talk, |p| p[5..8].copy_from_slice(&[0xab, 0xcd, 0xef]))
    }),
    of("rc-opcode", Nothing, "opcode 0x04 (RC SEND only) to queue pair 1", DROPPED, |talk| {
        dropped(talk, |p| p[0] = 0x04)
    }),
    of("base-version", Nothing, "MAD base version 2", DROPPED, |talk| dropped(talk, |p| p[20] = 2)),
    of("class-version-1", Nothing, "class version 1", "REJ 31; Linux: nothing", |talk| {
        class_version(talk, 1)
    }),
    of("class-version-3", Nothing, "class version 3", "REJ 31; Linux: nothing", |talk| {
        class_version(talk, 3)
    }),
    of("class-unknown", Nothing, "management class 0x0f, which nobody has", DROPPED, |talk| {
        dropped(talk, |p| p[21] = 0x0f)
    }),
    of(
        "class-smi",
        Nothing,
        "management class 0x81 (directed route SMP) on queue pair 1",
        DROPPED,
        |talk| dropped(talk, |p| p[21] = 0x81),
    ),
    of(
        "method-get",
        Nothing,
        "a REQ with method Get",
        "nothing, or GetResp with status 0x0008 or 0x000c (not supported)",
        |talk| {
            let call = talk.call_nobody();
            let payload = talk.odd_frame(&call.mad, |p| p[23] = 0x01);
            talk.any_method = true;
            let [a, b] = [0x08, 0x0c].map(|status| {
                let names = [("transaction_id", call.tid), ("method", 0x81), ("status", status)];
                message(Attribute::REQ, &names)
            });
            talk.exchange_payload(&payload, &[silence(), a, b]).map(drop)
        },
    ),
    of("method-response", Nothing, "a REQ with the response bit (method 0x83)", DROPPED, |talk| {
        dropped(talk, |p| p[23] = 0x83)
    }),
];

/// A frame that is taken.
fn answered(talk: &mut Talk<'_>, change: impl FnOnce(&mut Vec<u8>)) -> Result<(), Stop> {
    let call = talk.call_nobody();
    let payload = talk.odd_frame(&call.mad, change);
    talk.exchange_payload(&payload, &[call.rej(8)]).map(drop)
}

/// A frame that is dropped without a word.
fn dropped(talk: &mut Talk<'_>, change: impl FnOnce(&mut Vec<u8>)) -> Result<(), Stop> {
    let call = talk.call_nobody();
    let payload = talk.odd_frame(&call.mad, change);
    talk.exchange_payload(&payload, &[silence()]).map(drop)
}

fn spoiled(talk: &mut Talk<'_>, spoil: impl FnOnce(&mut [u8])) -> Result<(), Stop> {
    let call = talk.call_nobody();
    let payload = talk.spoiled_frame(&call.mad, spoil);
    talk.exchange_payload(&payload, &[silence()]).map(drop)
}

fn class_version(talk: &mut Talk<'_>, version: u8) -> Result<(), Stop> {
    let call = talk.call_nobody();
    let payload = talk.odd_frame(&call.mad, |p| p[22] = version);
    let wants = [message(Attribute::REJ, &[("reason", 31)]), silence().linux()];
    talk.exchange_payload(&payload, &wants).map(drop)
}
