//! SIDR: questions for datagram services.
//!
//! Read first: IBTA 12 (SIDR); facts, wire-formats §2.8, §2.9.

use super::super::verdict::{Deviation, Verdict};
use super::{Conversation, Needs::Listener, Needs::Nothing, Needs::Service, of};
use nanocm::PortSpace;
use nanocm_core::wire::{SidrRep, SidrReq};
use std::time::Instant;

pub(super) const TABLE: &[Conversation] = &[
    of(
        "sidr-no-service",
        Nothing,
        "a SIDR_REQ for a service ID that nobody has",
        "SIDR_REP 1, without a queue pair",
        |talk| {
            let service = talk.nobodys_service();
            let question = talk.question(service);
            let rep = talk.exchange(&question.mad, &[question.sidr_rep(1)])?;
            if let Some(rep) = rep {
                let (rep_service, qpn) = (SidrRep(&rep).service_id(), SidrRep(&rep).qpn());
                if rep_service != service {
                    let (expected, seen) = (format!("{service:?}"), format!("{rep_service:?}"));
                    return Err(Deviation::stop("MAD octet 36, service_id", expected, seen));
                }
                if qpn != 0 {
                    return Err(Deviation::stop("MAD octet 32, qpn", "0", qpn.to_string()));
                }
            }
            Ok(())
        },
    ),
    of(
        "sidr-again",
        Nothing,
        "the same SIDR_REQ twice, the second after the answer",
        "SIDR_REP 1 to both",
        |talk| {
            let question = talk.question(talk.nobodys_service());
            talk.exchange(&question.mad, &[question.sidr_rep(1)])?;
            talk.exchange(&question.mad, &[question.sidr_rep(1)]).map(drop)
        },
    ),
    of(
        "sidr-pkey",
        Nothing,
        "a SIDR_REQ for P_Key 0x8001 and a service ID that nobody has",
        "SIDR_REP 1",
        |talk| {
            let mut question = talk.question(talk.nobodys_service());
            SidrReq(&mut question.mad).set_partition_key(0x8001);
            talk.exchange(&question.mad, &[question.sidr_rep(1)]).map(drop)
        },
    ),
    of(
        "sidr-to-tcp",
        Listener,
        "a SIDR_REQ for the service ID of a listener for connections",
        "SIDR_REP 1 or 2",
        |talk| {
            let question = talk.question(talk.service(PortSpace::Tcp));
            let wants = [question.sidr_rep(1), question.sidr_rep(2)];
            talk.exchange(&question.mad, &wants).map(drop)
        },
    ),
    of(
        "sidr",
        Service,
        "a SIDR_REQ for the datagram service",
        "SIDR_REP 0 with a queue pair and a Q_Key",
        |talk| {
            let question = talk.question(talk.service(PortSpace::Udp));
            let rep = talk.exchange(&question.mad, &[question.sidr_rep(0)])?;
            match rep.as_ref().map(|rep| (SidrRep(rep).qpn(), SidrRep(rep).qkey())) {
                Some((0 | 1 | 0xff_ffff, _)) => {
                    Err(Deviation::stop("MAD octet 32, qpn", "a queue pair of the service", "none"))
                }
                Some((_, qkey)) if qkey >> 31 != 0 => {
                    let seen = format!("{qkey:#010x}");
                    Err(Deviation::stop("MAD octet 44, qkey", "without the top bit", seen))
                }
                _ => Ok(()),
            }
        },
    ),
    of(
        "sidr-header",
        Service,
        "a SIDR_REQ whose IP CM header has version 1.0",
        "SIDR_REP 2",
        |talk| {
            let mut question = talk.question(talk.service(PortSpace::Udp));
            question.mad[40] = 0x10;
            talk.exchange(&question.mad, &[question.sidr_rep(2)]).map(drop)
        },
    ),
    of(
        "sidr-repeated",
        Service,
        "the same SIDR_REQ again, after the answer",
        "the same SIDR_REP again; Linux: another queue pair",
        |talk| {
            let question = talk.question(talk.service(PortSpace::Udp));
            let wants = [question.sidr_rep(0)];
            let first = talk.exchange(&question.mad, &wants)?;
            let second = talk.exchange(&question.mad, &wants)?;
            if let (Some(first), Some(second)) = (first, second)
                && SidrRep(&first).qpn() != SidrRep(&second).qpn()
            {
                talk.note("another queue pair".into());
                talk.count(Verdict::AsLinux);
            }
            Ok(())
        },
    ),
    of(
        "sidr-pending",
        Service,
        "the same SIDR_REQ twice at once",
        "SIDR_REP 0, once or twice",
        |talk| {
            let question = talk.question(talk.service(PortSpace::Udp));
            talk.send(&question.mad);
            talk.exchange(&question.mad, &[question.sidr_rep(0)])?;
            let until = talk.patience.silence_from_now();
            while Instant::now() < until {
                if let Some(mad) = talk.take(until)? {
                    super::super::verdict::judge(&mad, &[question.sidr_rep(0)])?;
                }
            }
            Ok(())
        },
    ),
];
