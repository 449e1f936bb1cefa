//! What may happen to two engines: how often, and what applications do.

use nanocm_core::testing::{Side, Watch};
use nanocm_core::wire::RejectReason;
use nanocm_core::{ConnParam, ConnState, Id, Instant, PortSpace, State};

/// The listeners' port.
pub(crate) const PORT: u16 = 7471;

/// What may happen.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Its name.
    pub(crate) name: &'static str,
    /// Connections, or questions for a datagram service.
    pub(crate) space: PortSpace,
    /// How often each side connects to the other.
    pub(crate) connects: [u8; 2],
    /// Datagrams lost, repeated or overtaken, and times that a timer is faster than the link.
    pub(crate) faults: u8,
    /// How often each side begins anew: same GUID, same queue pairs, another seed.
    pub(crate) restarts: [u8; 2],
    /// How often each side's device goes away.
    pub(crate) removals: [u8; 2],
    /// Applications accept and establish at once, so that nothing fails for want of time; then no single
    /// fault may cost a connection.
    pub(crate) prompt: bool,
    /// Connections stand to begin with, one for each of A's connects.
    pub(crate) standing: bool,
    /// Hosts fetch events and datagrams one by one, when they like.
    pub(crate) lazy: bool,
    /// How many connections an engine has room for, and a listener's backlog.
    pub(crate) room: (usize, u32),
    /// What applications do with their identifiers.
    pub(crate) ops: &'static [Op],
}

impl Rules {
    /// One connection over a good link.
    pub(crate) const BASE: Rules = Rules {
        name: "",
        space: PortSpace::Tcp,
        connects: [1, 0],
        faults: 0,
        restarts: [0, 0],
        removals: [0, 0],
        prompt: false,
        standing: false,
        lazy: false,
        room: (2, 2),
        ops: &Op::ALL,
    };
}

/// An operation on an identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Accept,
    Reject,
    Establish,
    Notify,
    Disconnect,
    Reset,
    Destroy,
}
use Op::*;

impl Op {
    pub(crate) const ALL: [Op; 7] = [Accept, Reject, Establish, Notify, Disconnect, Reset, Destroy];

    /// Whether an identifier of ours is ready for it.
    pub(crate) fn is_legal(self, cm: &Watch<'_>, id: Id) -> bool {
        use ConnState::*;
        let state = cm.conn_state(id).unwrap_or_default();
        let over = matches!(cm.state(id), Ok(State::Connect | State::Disconnect));
        let ours = cm.local_addr(id).is_ok_and(|addr| addr.port() != PORT);
        match self {
            Accept => matches!(state, ReqRcvd | SidrReqRcvd),
            Reject => matches!(state, ReqRcvd | SidrReqRcvd | RepRcvd | RepSent),
            Establish => state == RepRcvd,
            Notify => state == RepSent,
            Disconnect => matches!(state, Established | DreqRcvd),
            Reset => ours && over && matches!(state, Idle | SidrResolved),
            Destroy => cm.state(id) != Ok(State::Listen),
        }
    }

    /// False if it is refused. Who accepts does so with this queue pair.
    pub(crate) fn make(self, cm: &mut Watch<'_>, now: Instant, id: Id, qpn: u32) -> bool {
        let mut param = ConnParam::new(qpn);
        param.retries = Some(1);
        match self {
            Accept => cm.accept(now, id, &param).is_ok(),
            Reject => cm.reject(now, id, RejectReason::CONSUMER, &[]).is_ok(),
            Establish => cm.establish(now, id, &[]).is_ok(),
            Notify => cm.notify_established(now, id).is_ok(),
            Disconnect => cm.disconnect(now, id, &[]).is_ok(),
            Reset => cm.reset(id).is_ok(),
            Destroy => cm.destroy(now, id).is_ok(),
        }
    }
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// An application connects to the other side's listener.
    Connect(Side),
    /// An application does something with the n-th of its identifiers.
    Do(Side, Op, usize),
    /// The n-th of the datagrams under way to a side arrives; not the first: it overtakes.
    Arrive(Side, usize),
    /// It arrives, and will do so again.
    Repeat(Side, usize),
    /// The next datagram to this side is lost.
    Lose(Side),
    /// Time passes until somebody has a deadline.
    Pass,
    /// A side begins anew.
    Restart(Side),
    /// A side's device goes away.
    Remove(Side),
    /// A host fetches an event.
    Tell(Side),
    /// A host fetches a datagram.
    Send(Side),
}
