//! Conversations put together from messages made up here.

use std::net::IpAddr;

use nanocm::capture::{Found, Timestamp};
use nanocm_core::addr::{PortSpace, ServiceId};
use nanocm_core::wire::icrc::Integrity;
use nanocm_core::wire::{
    Drep, Dreq, Mad, MessageKind, Mra, Rej, RejectReason, Rep, Req, Rtu, SidrRep, SidrReq,
    SidrStatus,
};

use super::*;

const A: &str = "10.0.0.1";
const B: &str = "10.0.0.2";

/// What was sent, a millisecond apart.
#[derive(Default)]
struct Talk {
    conversations: Conversations,
    packets: u64,
}

impl Talk {
    fn send(&mut self, from: &str, to: &str, write: impl FnOnce(&mut Mad)) -> &mut Talk {
        self.packets += 1;
        let mut mad = [0; 256];
        write(&mut mad);
        let addresses = [from, to].map(|ip| ip.parse::<IpAddr>().unwrap());
        let time = Timestamp::from_nanoseconds(self.packets * 1_000_000);
        let found = Found::new(self.packets, Some(time), addresses, Integrity::Ok, mad).unwrap();
        self.conversations.add(found);
        self
    }

    fn req(&mut self, from: &str, to: &str, tid: u64, id: u32) -> &mut Talk {
        self.send(from, to, |mad| {
            let mut req = Req::emit(mad, tid);
            req.set_local_comm_id(id).set_service_id(ServiceId::new(PortSpace::Tcp, 4420));
        })
    }

    fn rep(&mut self, from: &str, to: &str, local: u32, remote: u32) -> &mut Talk {
        self.send(from, to, |mad| {
            Rep::emit(mad, 1).set_local_comm_id(local).set_remote_comm_id(remote);
        })
    }

    fn rtu(&mut self, from: &str, to: &str, local: u32, remote: u32) -> &mut Talk {
        self.send(from, to, |mad| {
            Rtu::emit(mad, 1).set_local_comm_id(local).set_remote_comm_id(remote);
        })
    }

    fn dreq(&mut self, from: &str, to: &str, local: u32, remote: u32) -> &mut Talk {
        self.send(from, to, |mad| {
            Dreq::emit(mad, 2).set_local_comm_id(local).set_remote_comm_id(remote);
        })
    }

    fn drep(&mut self, from: &str, to: &str, local: u32, remote: u32) -> &mut Talk {
        self.send(from, to, |mad| {
            Drep::emit(mad, 2).set_local_comm_id(local).set_remote_comm_id(remote);
        })
    }

    fn rej(&mut self, from: &str, to: &str, ids: (u32, u32), kind: MessageKind) -> &mut Talk {
        self.send(from, to, |mad| {
            let mut rej = Rej::emit(mad, 1);
            rej.set_local_comm_id(ids.0).set_remote_comm_id(ids.1);
            rej.set_message_rejected(kind).set_reason(RejectReason::CONSUMER);
        })
    }

    fn sidr_req(&mut self, from: &str, to: &str, id: u32) -> &mut Talk {
        self.send(from, to, |mad| {
            SidrReq::emit(mad, 1).set_request_id(id);
        })
    }

    /// The ladders without colours, and without what stands before the left line.
    fn ladders(&self) -> Vec<String> {
        let draw = |conversation| {
            let drawn = draw(1, conversation);
            let plain = anstream::adapter::strip_str(&drawn).to_string();
            let rows = plain.lines().map(|row| row.chars().skip(21).collect::<String>());
            rows.collect::<Vec<_>>().join("\n")
        };
        self.conversations.iter().map(draw).collect()
    }

    /// How many messages each conversation has.
    fn sizes(&self) -> Vec<usize> {
        self.conversations.iter().map(|conversation| conversation.steps.len()).collect()
    }
}

#[test]
fn connections_between_the_same_hosts_are_kept_apart() {
    let mut talk = Talk::default();
    talk.req(A, B, 1, 0xa1).req(A, B, 2, 0xa2).rep(B, A, 0xb2, 0xa2).rep(B, A, 0xb1, 0xa1);
    talk.rtu(A, B, 0xa1, 0xb1).rej(B, A, (0, 0xa2), MessageKind::REQ);
    assert_eq!(talk.sizes(), [3, 3]);
}

#[test]
fn both_ends_may_have_one_address() {
    let mut talk = Talk::default();
    talk.req(A, A, 1, 0xa1).rep(A, A, 0xb1, 0xa1).rtu(A, A, 0xa1, 0xb1);
    talk.dreq(A, A, 0xb1, 0xa1).drep(A, A, 0xa1, 0xb1);
    let ladders = talk.ladders();
    let arrows: Vec<bool> =
        ladders[0].lines().filter(|row| row.contains('─')).map(|row| row.contains('▶')).collect();
    assert_eq!(arrows, [true, false, true, false, true]);
}

#[test]
fn an_id_that_is_used_again_begins_a_new_conversation() {
    let mut talk = Talk::default();
    talk.req(A, B, 1, 0xa1).rej(B, A, (0, 0xa1), MessageKind::REQ);
    talk.req(A, B, 2, 0xa1).rej(B, A, (0, 0xa1), MessageKind::REQ);
    assert_eq!(talk.sizes(), [2, 2]);
}

#[test]
fn a_copy_is_a_retransmission_and_a_changed_message_is_not() {
    let mut talk = Talk::default();
    talk.req(A, B, 1, 0xa1).req(A, B, 1, 0xa1).rep(B, A, 0xb1, 0xa1).rep(B, A, 0xb1, 0xa1);
    talk.rej(B, A, (0xb1, 0xa1), MessageKind::OTHER).rej(B, A, (0xb1, 0xa1), MessageKind::REQ);
    let ladders = talk.ladders();
    let marked: Vec<bool> = ladders[0]
        .lines()
        .filter(|row| row.contains('─'))
        .map(|row| row.ends_with("(retransmission, +1 ms)"))
        .collect();
    assert_eq!(marked, [false, true, false, true, false, false]);
}

#[test]
fn messages_that_were_not_captured_are_marked() {
    let mut talk = Talk::default();
    talk.req(A, B, 1, 0xa1).rtu(A, B, 0xa1, 0xb1).dreq(A, B, 0xa1, 0xb1);
    let ladder = &talk.ladders()[0];
    assert_eq!(ladder.matches("REP not captured").count(), 1, "{ladder}");
    assert!(ladder.contains("ended by 10.0.0.1, which was not answered"), "{ladder}");
}

#[test]
fn a_conversation_that_began_before_the_capture_says_so() {
    let mut talk = Talk::default();
    talk.rep(B, A, 0xb1, 0xa1).rtu(A, B, 0xa1, 0xb1);
    let ladder = &talk.ladders()[0];
    assert!(draw(1, talk.conversations.iter().next().unwrap()).contains("was not captured"));
    assert_eq!(ladder.matches("┊").count(), 2);
    assert!(
        ladder.contains("◀─────────── REP"),
        "the side that answers is the right one: {ladder}"
    );
    assert!(ladder.ends_with("still open"), "{ladder}");
}

#[test]
fn the_outcome_is_told() {
    type Story = fn(&mut Talk) -> &mut Talk;
    let stories: [(Story, &str); 8] = [
        (|t| t.req(A, B, 1, 1), "the REQ was not answered"),
        (|t| t.req(A, B, 1, 1).rep(B, A, 2, 1), "the REP was not answered"),
        (
            |t| t.req(A, B, 1, 1).rep(B, A, 2, 1).rtu(A, B, 1, 2),
            "established after 2 ms, still open",
        ),
        (
            |t| t.req(A, B, 1, 1).rej(B, A, (0, 1), MessageKind::REQ),
            "rejected by 10.0.0.2: the application at the other end said no",
        ),
        (|t| t.dreq(A, B, 1, 2).drep(B, A, 2, 1), "ended by 10.0.0.1"),
        (|t| t.drep(B, A, 2, 1), "ended"),
        (|t| t.sidr_req(A, B, 5), "the SIDR_REQ was not answered"),
        (
            |t| {
                t.sidr_req(A, B, 5).send(B, A, |mad| {
                    SidrRep::emit(mad, 1).set_request_id(5).set_status(SidrStatus::NO_QP);
                })
            },
            "refused by 10.0.0.2: the peer has no queue pair left",
        ),
    ];
    for (story, outcome) in stories {
        let mut talk = Talk::default();
        story(&mut talk);
        let ladders = talk.ladders();
        assert_eq!(ladders.len(), 1, "{outcome}");
        assert_eq!(ladders[0].lines().last(), Some(outcome));
    }
}

#[test]
fn an_mra_says_what_it_is_about() {
    let mut talk = Talk::default();
    talk.req(A, B, 1, 1).send(B, A, |mad| {
        Mra::emit(mad, 1).set_remote_comm_id(1).set_service_timeout(24);
    });
    assert!(talk.ladders()[0].contains("REQ received, wait 68.7 s"));
}
