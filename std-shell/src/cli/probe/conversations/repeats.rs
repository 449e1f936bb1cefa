//! Repetitions, ours and the peer's, and their timing. Tolerances are wide: a busy host is no deviation.
//!
//! Read first: IBTA 12 (timeouts and retries); facts, wire-formats §2.11.

use super::super::talk::{Call, Link, Talk};
use super::super::verdict::{Deviation, Stop, judge, message, silence};
use super::{Conversation, Needs::Acceptor, of};
use nanocm_core::wire::{Attribute, Header, Mad, Rep, Rtu};
use std::time::{Duration, Instant};

/// A response timeout that is over soon: 4.096 µs · 2¹⁶.
const SOON: u8 = 16;
const SOON_TIME: Duration = Duration::from_micros(268_435);

/// Until a repetition is missed, by whatever schedule.
const LONG: Duration = Duration::from_millis(2_500);

pub(super) const TABLE: &[Conversation] = &[
    of(
        "rtu-twice",
        Acceptor,
        "an RTU, and a second one; Local CM Response Timeout 16 (268 ms)",
        "no REP any more; then DREQ: DREP",
        |talk| {
            let (link, _) = unanswered(talk, 15)?;
            talk.send(&link.rtu());
            // REPs may have crossed that.
            let until = talk.patience.silence_from_now();
            while let Some(mad) = talk.take(until)? {
                same_rep(&mad, &link)?;
                talk.send(&link.rtu());
            }
            talk.send(&link.rtu());
            if let Some(mad) = talk.take(Instant::now() + LONG)? {
                let seen = Header(&mad).attribute().to_string();
                return Err(Deviation::stop("what follows the RTU", "nothing", seen));
            }
            talk.note(format!("nothing in {} ms", LONG.as_millis()));
            talk.disconnect(&link)
        },
    ),
    of(
        "duplicate-req-at-once",
        Acceptor,
        "the same REQ twice at once",
        "one connection: each REP has the same IDs",
        |talk| {
            let call = talk.call();
            talk.send(&call.mad);
            let link = talk.accepted_as(&call)?;
            let until = talk.patience.silence_from_now();
            while let Some(mad) = talk.take(until)? {
                same_rep(&mad, &link)?;
            }
            talk.send(&link.rtu());
            talk.disconnect(&link)
        },
    ),
    of(
        "duplicate-req",
        Acceptor,
        "the same REQ again after the REP",
        "nothing (the REP's timer goes on), or the same REP again",
        |talk| {
            let call = talk.call();
            let link = talk.accepted_as(&call)?;
            if let Some(mad) = talk.exchange(&call.mad, &[silence(), call.rep()])? {
                same_rep(&mad, &link)?;
            }
            talk.send(&link.rtu());
            talk.disconnect(&link)
        },
    ),
    of(
        "duplicate-req-established",
        Acceptor,
        "the same REQ again, once the connection stands",
        "nothing, or the same REP again; then DREQ: DREP",
        |talk| {
            let call = talk.call();
            let link = talk.accepted_as(&call)?;
            talk.send(&link.rtu());
            talk.silence()?;
            if let Some(mad) = talk.exchange(&call.mad, &[silence(), call.rep()])? {
                same_rep(&mad, &link)?;
            }
            talk.disconnect(&link)
        },
    ),
    of(
        "rep-repeated",
        Acceptor,
        "no RTU; Local CM Response Timeout 16 (268 ms), Max CM Retries 3",
        "the same REP 1 to 3 times more, not sooner than the timeout; perhaps REJ 4 then",
        |talk| {
            let asked = Instant::now();
            let (link, first) = unanswered(talk, 3)?;
            let mut since_asked = Vec::new();
            while let Some(mad) = talk.take(first + LONG)? {
                if gives_up(&mad, &link)? {
                    break;
                }
                same_rep(&mad, &link)?;
                since_asked.push(asked.elapsed());
            }
            let told: Vec<_> = since_asked.iter().map(|t| t.as_millis().to_string()).collect();
            talk.note(format!("{} ms after the REQ", told.join(", ")));
            if since_asked.is_empty() || since_asked.len() > 3 {
                let seen = format!("{} times", since_asked.len());
                return Err(Deviation::stop("how often the REP is repeated", "1 to 3 times", seen));
            }
            // Counted from the REQ, so that a late first REP makes no later one look early.
            for (n, time) in (1..).zip(&since_asked) {
                let soonest = SOON_TIME * 9 / 10 * n;
                if *time < soonest {
                    let expected = format!("{} ms after the REQ", soonest.as_millis());
                    let seen = format!("{} ms", time.as_millis());
                    return Err(Deviation::stop("when the REP is repeated", expected, seen));
                }
            }
            talk.send(&link.rtu());
            talk.disconnect(&link)
        },
    ),
    of(
        "rep-retries-0",
        Acceptor,
        "no RTU; Local CM Response Timeout 16 (268 ms), Max CM Retries 0",
        "no other REP; perhaps REJ 4 then",
        |talk| {
            let (link, first) = unanswered(talk, 0)?;
            match talk.take(first + LONG)? {
                None => talk.note(format!("nothing in {} ms", LONG.as_millis())),
                Some(mad) if gives_up(&mad, &link)? => {}
                Some(_) => {
                    return Err(Deviation::stop("how often the REP is repeated", "never", "it is"));
                }
            }
            talk.disconnect(&link)
        },
    ),
    of(
        "mra-of-rep",
        Acceptor,
        "an MRA of the REP (service timeout 19: 2.1 s), with the timeout of 268 ms",
        "no REP for so long; then RTU and DREQ: DREP",
        |talk| {
            let (link, first) = unanswered(talk, 15)?;
            talk.send(&link.mra(19));
            if talk.take(first + Duration::from_millis(1_500))?.is_some() {
                let seen = format!("after {} ms", first.elapsed().as_millis());
                return Err(Deviation::stop("when the REP is repeated", "after 2.1 s", seen));
            }
            talk.note("nothing in 1500 ms".into());
            talk.send(&link.rtu());
            talk.disconnect(&link)
        },
    ),
    of(
        "rtu-wrong-id",
        Acceptor,
        "an RTU from a communication ID that is not the connection's",
        "the REP again; then RTU and DREQ: DREP",
        |talk| {
            let (link, first) = unanswered(talk, 15)?;
            let mut rtu = link.rtu();
            Rtu(&mut rtu).set_local_comm_id(link.ours ^ 1);
            talk.send(&rtu);
            match talk.take(first + LONG)? {
                Some(mad) => same_rep(&mad, &link)?,
                None => {
                    return Err(Deviation::stop(
                        "how often the REP is repeated",
                        "until there is a right RTU",
                        format!("nothing in {} ms", LONG.as_millis()),
                    ));
                }
            }
            talk.send(&link.rtu());
            talk.disconnect(&link)
        },
    ),
    of(
        "rej-4-by-guid",
        Acceptor,
        "REJ 4 with remote ID 0 and our CA GUID instead of an RTU",
        "no other REP; then DREQ: DREP",
        |talk| {
            let (link, first) = unanswered(talk, 15)?;
            let withdrawal = talk.withdrawal(link.ours, link.tid);
            talk.send(&withdrawal);
            if talk.take(first + LONG)?.is_some() {
                return Err(Deviation::stop(
                    "how often the REP is repeated",
                    "not any more",
                    "it is",
                ));
            }
            talk.note(format!("nothing in {} ms", LONG.as_millis()));
            talk.disconnect(&link)
        },
    ),
];

/// A connection whose REP was not answered, and when that came.
fn unanswered(talk: &mut Talk<'_>, retries: u8) -> Result<(Link, Instant), Stop> {
    let mut call: Call = talk.call();
    call.req().set_local_cm_response_timeout(SOON).set_max_cm_retries(retries);
    let link = talk.accepted_as(&call)?;
    Ok((link, Instant::now()))
}

/// Whether it is the REJ 4 of a peer that has waited long enough for an RTU.
fn gives_up(mad: &Mad, link: &Link) -> Result<bool, Stop> {
    if Header(mad).attribute() != Attribute::REJ {
        return Ok(false);
    }
    let timeout = [("transaction_id", link.tid), ("reason", 4)];
    judge(mad, &[message(Attribute::REJ, &timeout)]).map(|_| true)
}

/// A repetition says what was said.
fn same_rep(mad: &Mad, link: &Link) -> Result<(), Stop> {
    let attribute = Header(mad).attribute();
    if attribute == Attribute::MRA {
        return Ok(());
    }
    if attribute != Attribute::REP {
        return Err(Deviation::stop("which message it is", "REP", attribute.to_string()));
    }
    let seen = (Rep(mad).local_comm_id(), Rep(mad).local_qpn());
    if seen != (link.theirs, link.their_qpn) {
        let expected = format!("{:#010x}, QPN {:#x}", link.theirs, link.their_qpn);
        let seen = format!("{:#010x}, QPN {:#x}", seen.0, seen.1);
        return Err(Deviation::stop("MAD octet 24, local_comm_id", expected, seen));
    }
    Ok(())
}
