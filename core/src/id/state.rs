//! The states of an identifier and the table of legal moves between them.

use core::fmt;

/// What an ID is doing: librdmacm's states (facts: linux-rdma-cm §1.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
#[repr(u8)]
pub enum State {
    /// Fresh: no address, no port.
    #[default]
    Idle,
    /// Address and port held.
    AddrBound,
    /// The host is looking for the destination.
    AddrQuery,
    /// Path and source known.
    AddrResolved,
    /// The host is looking for the route.
    RouteQuery,
    /// Ready to connect.
    RouteResolved,
    /// From REQ sent or received until the connection is over, rejected and unreachable included.
    Connect,
    /// DREQ or DREP seen.
    Disconnect,
    /// Listening; there is no way back.
    Listen,
    /// The device is gone; only `destroy` is left.
    DeviceRemoval,
}

impl State {
    /// Every state.
    pub const ALL: [State; 10] = [
        State::Idle,
        State::AddrBound,
        State::AddrQuery,
        State::AddrResolved,
        State::RouteQuery,
        State::RouteResolved,
        State::Connect,
        State::Disconnect,
        State::Listen,
        State::DeviceRemoval,
    ];

    /// The field's name.
    pub const fn name(self) -> &'static str {
        match self {
            State::Idle => "IDLE",
            State::AddrBound => "ADDR_BOUND",
            State::AddrQuery => "ADDR_QUERY",
            State::AddrResolved => "ADDR_RESOLVED",
            State::RouteQuery => "ROUTE_QUERY",
            State::RouteResolved => "ROUTE_RESOLVED",
            State::Connect => "CONNECT",
            State::Disconnect => "DISCONNECT",
            State::Listen => "LISTEN",
            State::DeviceRemoval => "DEVICE_REMOVAL",
        }
    }

    /// Whether `next` may follow.
    pub(crate) const fn may_become(self, next: State) -> bool {
        LEGAL[self as usize] & (1 << next as u32) != 0
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Every legal move of an identifier, and what makes it. `docs/states.md` is made from it.
pub const TRANSITIONS: &[(State, State, &str)] = {
    use State::*;
    &[
        (Idle, AddrBound, "bind"),
        (Idle, AddrQuery, "resolve_addr"),
        (Idle, RouteResolved, "set_route"),
        (Idle, Connect, "REQ received (a new ID)"),
        (AddrBound, Listen, "listen"),
        (AddrBound, AddrQuery, "resolve_addr"),
        (AddrBound, RouteResolved, "set_route"),
        (AddrQuery, AddrResolved, "the host found the path"),
        (AddrQuery, AddrBound, "the host did not (bound before)"),
        (AddrQuery, Idle, "the host did not (not bound before)"),
        (AddrResolved, RouteQuery, "resolve_route"),
        (AddrResolved, RouteResolved, "set_route"),
        (RouteQuery, RouteResolved, "the host found the route"),
        (RouteQuery, AddrResolved, "the host did not"),
        (RouteResolved, Connect, "connect"),
        (Connect, Disconnect, "DREQ or DREP, or the peer is gone"),
        (Connect, RouteResolved, "reset (rejected or unreachable)"),
        (Disconnect, RouteResolved, "reset (timewait over)"),
        (AddrBound, DeviceRemoval, REMOVED),
        (AddrQuery, DeviceRemoval, REMOVED),
        (AddrResolved, DeviceRemoval, REMOVED),
        (RouteQuery, DeviceRemoval, REMOVED),
        (RouteResolved, DeviceRemoval, REMOVED),
        (Connect, DeviceRemoval, "likewise; where a connection stood, by way of DISCONNECT"),
        (Disconnect, DeviceRemoval, REMOVED),
        (Listen, DeviceRemoval, REMOVED),
    ]
};

const REMOVED: &str = "the device of its address or path is gone";

const LEGAL: [u16; State::ALL.len()] = {
    let mut legal = [0; State::ALL.len()];
    let mut i = 0;
    while i < TRANSITIONS.len() {
        legal[TRANSITIONS[i].0 as usize] |= 1 << TRANSITIONS[i].1 as u32;
        i += 1;
    }
    legal
};
