//! The states of a connection and the table of legal moves between them.
//!
//! Read first: IBTA 12 (the CM's state diagrams); facts: linux-rdma-cm §3.4.

use crate::time::Tick;
use core::fmt;

/// Where a connection stands: the CM's states.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
#[repr(u8)]
pub enum ConnState {
    /// None, or none any more.
    #[default]
    Idle,
    /// REQ sent, waiting for REP, REJ or MRA.
    ReqSent,
    /// REQ received, waiting for the application's answer.
    ReqRcvd,
    /// REP received, waiting for the application's `establish`.
    RepRcvd,
    /// REP sent, waiting for RTU.
    RepSent,
    /// It stands.
    Established,
    /// DREQ sent, waiting for DREP.
    DreqSent,
    /// DREQ received, waiting for the application's `disconnect`.
    DreqRcvd,
    /// Over; stray packets of the queue pair may still be under way.
    Timewait,
    /// We rejected it; a repeated REQ gets the same answer again.
    RejSent,
    /// SIDR_REQ sent, waiting for SIDR_REP.
    SidrReqSent,
    /// SIDR_REP received: the service's queue pair is known.
    SidrResolved,
    /// SIDR_REQ received, waiting for the application's answer.
    SidrReqRcvd,
    /// SIDR_REP sent; a repeated SIDR_REQ gets the same answer again.
    SidrRepSent,
}

impl ConnState {
    /// Every state.
    pub const ALL: [ConnState; 14] = [
        ConnState::Idle,
        ConnState::ReqSent,
        ConnState::ReqRcvd,
        ConnState::RepRcvd,
        ConnState::RepSent,
        ConnState::Established,
        ConnState::DreqSent,
        ConnState::DreqRcvd,
        ConnState::Timewait,
        ConnState::RejSent,
        ConnState::SidrReqSent,
        ConnState::SidrResolved,
        ConnState::SidrReqRcvd,
        ConnState::SidrRepSent,
    ];

    /// The field's name.
    pub const fn name(self) -> &'static str {
        match self {
            ConnState::Idle => "IDLE",
            ConnState::ReqSent => "REQ_SENT",
            ConnState::ReqRcvd => "REQ_RCVD",
            ConnState::RepRcvd => "REP_RCVD",
            ConnState::RepSent => "REP_SENT",
            ConnState::Established => "ESTABLISHED",
            ConnState::DreqSent => "DREQ_SENT",
            ConnState::DreqRcvd => "DREQ_RCVD",
            ConnState::Timewait => "TIMEWAIT",
            ConnState::RejSent => "REJ_SENT",
            ConnState::SidrReqSent => "SIDR_REQ_SENT",
            ConnState::SidrResolved => "SIDR_RESOLVED",
            ConnState::SidrReqRcvd => "SIDR_REQ_RCVD",
            ConnState::SidrRepSent => "SIDR_REP_SENT",
        }
    }

    /// Whether `next` may follow.
    pub(crate) const fn may_become(self, next: ConnState) -> bool {
        LEGAL[self as usize] & (1 << next as u32) != 0
    }
}

impl fmt::Display for ConnState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A connection's state with what is valid in it. The moment of the next step is in the deadline
/// heap; what it means follows from the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(crate) enum Stage {
    #[default]
    Idle,
    ReqSent(Wait),
    ReqRcvd,
    /// Since when.
    RepRcvd(Tick),
    RepSent(Wait),
    Established,
    DreqSent(Wait),
    DreqRcvd,
    Timewait,
    RejSent,
    SidrReqSent(Wait),
    SidrResolved,
    SidrReqRcvd,
    SidrRepSent,
}

impl Stage {
    pub(crate) const fn state(&self) -> ConnState {
        match self {
            Stage::Idle => ConnState::Idle,
            Stage::ReqSent(_) => ConnState::ReqSent,
            Stage::ReqRcvd => ConnState::ReqRcvd,
            Stage::RepRcvd(_) => ConnState::RepRcvd,
            Stage::RepSent(_) => ConnState::RepSent,
            Stage::Established => ConnState::Established,
            Stage::DreqSent(_) => ConnState::DreqSent,
            Stage::DreqRcvd => ConnState::DreqRcvd,
            Stage::Timewait => ConnState::Timewait,
            Stage::RejSent => ConnState::RejSent,
            Stage::SidrReqSent(_) => ConnState::SidrReqSent,
            Stage::SidrResolved => ConnState::SidrResolved,
            Stage::SidrReqRcvd => ConnState::SidrReqRcvd,
            Stage::SidrRepSent => ConnState::SidrRepSent,
        }
    }
}

/// Waiting for an answer: how often to repeat the question, and until when.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wait {
    /// The end.
    pub(crate) until: Tick,
    /// How much further an MRA may move the end, in tenths of a second; not at all where the user
    /// set it.
    pub(crate) patience: u16,
    /// Intervals so far, each twice as long as the one before, and [`SPOILT`](Wait::SPOILT).
    pub(crate) beats: u8,
    /// Repetitions left.
    pub(crate) left: u8,
}

impl Wait {
    /// How long it takes says nothing about the peer's pace: the question has been sent again, or an MRA
    /// has moved the beat.
    const SPOILT: u8 = 0x80;
    const MOST_BEATS: u8 = 20;

    /// How many intervals have passed.
    pub(crate) const fn beats(&self) -> u32 {
        (self.beats & !Self::SPOILT) as u32
    }

    pub(crate) const fn is_spoilt(&self) -> bool {
        self.beats & Self::SPOILT != 0
    }

    pub(crate) const fn spoilt(self) -> Wait {
        Wait { beats: self.beats | Self::SPOILT, ..self }
    }

    /// One interval later.
    pub(crate) const fn after_a_beat(self) -> Wait {
        let more = self.beats & !Self::SPOILT < Self::MOST_BEATS;
        Wait { beats: self.beats + more as u8, ..self }
    }
}

/// Every legal move of a connection, and what makes it. `docs/states.md` is made from it.
pub const TRANSITIONS: &[(ConnState, ConnState, &str)] = {
    use ConnState::*;
    &[
        (Idle, ReqSent, "connect"),
        (Idle, ReqRcvd, "REQ"),
        (ReqSent, RepRcvd, "REP"),
        (ReqSent, Idle, "REJ; no answer in time (we send REJ 4); destroy (likewise)"),
        (ReqRcvd, RepSent, "accept"),
        (ReqRcvd, RejSent, "reject; not answered in time; destroy (REJ 28)"),
        (ReqRcvd, Idle, "REJ: the peer gave up; stale"),
        (RepRcvd, Established, "establish"),
        (RepRcvd, Timewait, "REJ; stale; reject or destroy (we send REJ 28)"),
        (RepSent, Established, "RTU; notify_established"),
        (RepSent, DreqRcvd, "DREQ: the RTU was lost"),
        (
            RepSent,
            Timewait,
            "REJ; no answer in time (we send REJ 4); reject or destroy (REJ 28); stale",
        ),
        (Established, DreqSent, "disconnect; destroy"),
        (Established, DreqRcvd, "DREQ"),
        (Established, Timewait, "REJ; stale"),
        (DreqSent, Timewait, "DREP; DREQ (crossing); REJ; no answer in time; stale"),
        (DreqRcvd, Timewait, "disconnect, destroy, or a repeated DREQ (we send DREP); stale"),
        (Timewait, Idle, "timewait over"),
        (Idle, SidrReqSent, "connect (a datagram service)"),
        (Idle, SidrReqRcvd, "SIDR_REQ"),
        (SidrReqSent, SidrResolved, "SIDR_REP"),
        (SidrReqSent, Idle, "SIDR_REP that refuses; no answer in time"),
        (SidrResolved, Idle, "reset"),
        (SidrReqRcvd, SidrRepSent, "accept; reject, not answered in time or destroy (status 2)"),
    ]
};

const LEGAL: [u16; ConnState::ALL.len()] = {
    let mut legal = [0; ConnState::ALL.len()];
    let mut i = 0;
    while i < TRANSITIONS.len() {
        legal[TRANSITIONS[i].0 as usize] |= 1 << TRANSITIONS[i].1 as u32;
        i += 1;
    }
    legal
};
