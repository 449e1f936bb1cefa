//! Connections: how they come, end, and go wrong.
//!
//! Read first: IBTA 12 (state diagrams, stale connections); facts, wire-formats appendix B.

use super::super::talk::{Call, Link, Talk};
use super::super::verdict::{Deviation, NO_ANSWER, Stop, Want, judge, message, silence, words};
use super::{Conversation, Needs::Acceptor, of};
use nanocm_core::wire::{Attribute, Drep, Dreq, Header, Lap, MAD_LEN, MessageKind, RejectReason};
use std::time::Instant;

pub(super) const TABLE: &[Conversation] = &[
    of("connect", Acceptor, "REQ, RTU, DREQ", "REP, nothing, DREP", |talk| {
        let link = talk.accepted()?;
        if link.theirs == 0 {
            return Err(Deviation::stop("MAD octet 24, local_comm_id", "not 0", "0"));
        }
        if matches!(link.their_qpn, 0 | 1 | 0xff_ffff) {
            let seen = format!("{:#x}", link.their_qpn);
            return Err(Deviation::stop("MAD octet 36, local_qpn", "a queue pair", seen));
        }
        talk.exchange(&link.rtu(), &[silence()])?;
        talk.disconnect(&link)
    }),
    of(
        "rej-for-rtu",
        Acceptor,
        "REJ 28 of the REP instead of an RTU",
        "nothing; then DREQ: DREP",
        |talk| {
            let link = talk.accepted()?;
            talk.exchange(&link.rej(MessageKind::REP, RejectReason::CONSUMER), &[silence()])?;
            talk.disconnect(&link)
        },
    ),
    of(
        "rej-established",
        Acceptor,
        "REJ 28 of no message in particular, once the connection stands",
        "nothing; then DREQ: DREP",
        |talk| {
            let link = talk.connected()?;
            talk.silence()?;
            talk.exchange(&link.rej(MessageKind::OTHER, RejectReason::CONSUMER), &[silence()])?;
            talk.disconnect(&link)
        },
    ),
    of(
        "dreq-wrong-qpn",
        Acceptor,
        "a DREQ for a queue pair that is not the connection's",
        "nothing; then the right DREQ: DREP",
        |talk| {
            let link = talk.connected()?;
            let mut dreq = link.dreq(talk.new_tid());
            Dreq(&mut dreq).set_remote_qpn(link.their_qpn ^ 1);
            talk.exchange(&dreq, &[silence()])?;
            talk.disconnect(&link)
        },
    ),
    of("dreq-for-rtu", Acceptor, "a DREQ instead of an RTU", "DREP", |talk| {
        let link = talk.accepted()?;
        talk.disconnect(&link)
    }),
    of(
        "dreq-twice",
        Acceptor,
        "the same DREQ again, after the DREP",
        "the same DREP again",
        |talk| {
            let link = talk.connected()?;
            let tid = talk.new_tid();
            let (dreq, drep) = (link.dreq(tid), link.drep(tid));
            talk.exchange(&dreq, std::slice::from_ref(&drep))?;
            talk.exchange(&dreq, &[drep]).map(drop)
        },
    ),
    of(
        "drep-unasked",
        Acceptor,
        "a DREP that was not asked for",
        "nothing; then DREQ: DREP",
        |talk| {
            let link = talk.connected()?;
            let mut drep = [0; MAD_LEN];
            Drep::emit(&mut drep, link.tid)
                .set_local_comm_id(link.ours)
                .set_remote_comm_id(link.theirs);
            talk.exchange(&drep, &[silence()])?;
            talk.disconnect(&link)
        },
    ),
    of(
        "lap",
        Acceptor,
        "a LAP, once the connection stands",
        "APR; Linux over RoCE: nothing",
        |talk| {
            let link = talk.connected()?;
            let mut lap = [0; MAD_LEN];
            let tid = talk.new_tid();
            Lap::emit(&mut lap, tid)
                .set_local_comm_id(link.ours)
                .set_remote_comm_id(link.theirs)
                .set_remote_qpn(link.their_qpn)
                .set_remote_cm_response_timeout(20)
                .set_alternate_local_gid(talk.peer.local_gid())
                .set_alternate_remote_gid(talk.peer.remote_gid());
            let apr = message(Attribute::APR, &[("transaction_id", tid)]);
            talk.exchange(&lap, &[apr, silence().linux()])?;
            talk.disconnect(&link)
        },
    ),
    of(
        "same-id-after-drep",
        Acceptor,
        "the same REQ again, right after DREQ and DREP",
        "REP (a new connection), or REJ 10 while the old one is in timewait",
        |talk| {
            let call = talk.call();
            let link = talk.accepted_as(&call)?;
            talk.send(&link.rtu());
            talk.disconnect(&link)?;
            let again = talk.exchange(&call.mad, &[call.rep(), call.rej(10)])?;
            match again.as_ref().filter(|mad| Header(*mad).attribute() == Attribute::REP) {
                Some(rep) => {
                    let link = Link::of(rep);
                    talk.send(&link.rtu());
                    talk.disconnect(&link)
                }
                None => Ok(()),
            }
        },
    ),
    of(
        "stale",
        Acceptor,
        "a REQ with a new communication ID from a queue pair that is connected",
        "REJ 10, and a DREQ for the old connection",
        |talk| {
            let (_, new, wants) = connected_and_anew(talk)?;
            let first = talk.exchange(&new.mad, &wants)?;
            let [rej, dreq] = wants;
            // In whichever order they come.
            let is_rej = first.is_some_and(|mad| Header(&mad).attribute() == Attribute::REJ);
            let rest = if is_rej { dreq } else { rej };
            await_one(talk, rest)
        },
    ),
    of(
        "crossing-dreqs",
        Acceptor,
        "a DREQ when the peer's own is on its way (a stale REQ makes it send one)",
        "DREQ, and DREP to ours",
        |talk| {
            let (link, new, [rej, dreq]) = connected_and_anew(talk)?;
            // Ours leaves before theirs is answered: to the peer they have crossed.
            talk.agrees = false;
            talk.send(&new.mad);
            let until = Instant::now() + talk.patience.answer;
            let theirs = loop {
                let Some(mad) = talk.take(until)? else {
                    let reason = "the peer sends no DREQ by itself".to_owned();
                    return Err(Stop::NotTested(reason));
                };
                // What else it makes of the REQ is another conversation's.
                if Header(&mad).attribute() == Attribute::DREQ {
                    judge(&mad, std::slice::from_ref(&dreq))?;
                    break mad;
                }
            };
            let tid = talk.new_tid();
            let wants = [link.drep(tid), dreq, rej];
            // A repetition of what was heard does no harm.
            for _ in 0..6 {
                let heard = talk.exchange(&link.dreq(tid), &wants)?;
                if heard.is_some_and(|mad| Header(&mad).attribute() == Attribute::DREP) {
                    talk.agree(&theirs);
                    return Ok(());
                }
            }
            Err(Deviation::stop(NO_ANSWER, "DREP", "other messages"))
        },
    ),
];

/// A connection, a REQ from its queue pair under another name, and what that brings: REJ and DREQ.
fn connected_and_anew(talk: &mut Talk<'_>) -> Result<(Link, Call, [Want; 2]), Stop> {
    let call = talk.call();
    let link = talk.accepted_as(&call)?;
    talk.send(&link.rtu());
    talk.silence()?;
    let new = same_queue_pair(talk, &call);
    let wants = [new.rej(10), teardown(&link, &call)];
    Ok((link, new, wants))
}

/// A good REQ from the same queue pair as another, under a name of its own.
fn same_queue_pair(talk: &Talk<'_>, old: &Call) -> Call {
    let mut new = talk.call();
    new.qpn = old.qpn;
    new.req().set_local_qpn(old.qpn);
    new
}

/// The peer's DREQ for a connection.
fn teardown(link: &Link, call: &Call) -> Want {
    let ids = [("local_comm_id", link.theirs.into()), ("remote_comm_id", link.ours.into())];
    message(Attribute::DREQ, &[&ids[..], &[("remote_qpn", call.qpn.into())]].concat())
}

/// This comes too, by itself.
fn await_one(talk: &mut Talk<'_>, want: Want) -> Result<(), Stop> {
    let until = Instant::now() + talk.patience.answer;
    match talk.take(until)? {
        Some(mad) => judge(&mad, &[want]).map(drop),
        None => {
            let expected = words(&[want]);
            Err(Deviation::stop(NO_ANSWER, expected, "no more"))
        }
    }
}
