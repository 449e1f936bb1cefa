//! Options of an identifier (`rdma_set_option`).

use super::State;
use super::slot::flag;
use crate::cm::Cm;
use crate::conn::Transport;
use crate::error::OpError;
use crate::handle::Id;

/// A set of transports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transports(pub(super) u8);

impl Transports {
    /// Reliable connections.
    pub const RC: Transports = Transports(1);
    /// Unreliable connections.
    pub const UC: Transports = Transports(2);
    /// Extended reliable connections.
    pub const XRC: Transports = Transports(4);

    /// Whether it has this one.
    pub const fn has(self, transport: Transport) -> bool {
        let one = match transport {
            Transport::Rc => Transports::RC,
            Transport::Uc => Transports::UC,
            Transport::Xrc => Transports::XRC,
        };
        self.0 & one.0 != 0
    }
}

impl core::ops::BitOr for Transports {
    type Output = Transports;

    fn bitor(self, other: Transports) -> Transports {
        Transports(self.0 | other.0)
    }
}

/// An option and its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IdOption {
    /// Type of service of the connection's packets (`RDMA_OPTION_ID_TOS`): 0 is a value like any other,
    /// not the same as unset, where the route says it. Until `connect`; connections that are accepted
    /// have their peer's.
    Tos(u8),
    /// Share a port with others that say so too (`RDMA_OPTION_ID_REUSEADDR`); on a bound identifier,
    /// with those that come later. Not while listening; taken back only while idle.
    ReuseAddr(bool),
    /// An IPv6 wildcard is for IPv6 alone (`RDMA_OPTION_ID_AFONLY`). Only while idle: it decides at
    /// `bind` with whom the port can be shared.
    AfOnly(bool),
    /// Local ACK timeout code, 5 bits; 0 for none (`RDMA_OPTION_ID_ACK_TIMEOUT`). Goes into the queue
    /// pair's attributes at once, and into the REQ of routes resolved afterwards.
    AckTimeout(u8),
    /// The transports that a listener takes; a REQ with another gets REJ 9. Default: RC alone.
    Transports(Transports),
    /// A listener answers a request beyond its backlog with REJ 3 (no resources; SIDR status 3), not with
    /// silence. Silence lets the peer repeat its request until there is room; a rejection lets it go
    /// elsewhere at once. Only while idle, bound or listening.
    RejectWhenFull(bool),
}

impl Cm<'_> {
    /// Gives an identifier another cookie, for its further events.
    ///
    /// # Errors
    /// [`OpError::NoSuchId`], [`OpError::DeviceGone`].
    pub fn set_user(&mut self, id: Id, user: u64) -> Result<(), OpError> {
        let index = self.ids.find(id).ok_or(OpError::NoSuchId)?;
        if self.ids.state(index) == State::DeviceRemoval {
            return Err(OpError::DeviceGone);
        }
        self.ids.slot_mut(index).set_user(user);
        Ok(())
    }

    /// Sets an option.
    ///
    /// # Errors
    /// [`OpError`]; the identifier is as it was.
    pub fn set_option(&mut self, id: Id, option: IdOption) -> Result<(), OpError> {
        let index = self.ids.find(id).ok_or(OpError::NoSuchId)?;
        let state = self.ids.state(index);
        let legal = match option {
            _ if state == State::DeviceRemoval => false,
            IdOption::Tos(_) => {
                !matches!(state, State::Connect | State::Disconnect | State::Listen)
            }
            IdOption::AckTimeout(_) | IdOption::Transports(_) => true,
            IdOption::ReuseAddr(true) => state != State::Listen,
            IdOption::ReuseAddr(false) => state == State::Idle,
            IdOption::AfOnly(_) => state == State::Idle,
            IdOption::RejectWhenFull(_) => {
                matches!(state, State::Idle | State::AddrBound | State::Listen)
            }
        };
        if !legal {
            return Err(OpError::in_state(state));
        }
        if matches!(option, IdOption::AckTimeout(32..)) {
            return Err(OpError::NumberTooLarge);
        }
        let slot = self.ids.slot_mut(index);
        match option {
            IdOption::Tos(tos) => {
                slot.set_tos(tos);
                // The route is there already.
                if let (State::RouteResolved, Some(conn)) = (state, slot.conn.get()) {
                    self.conns.set_traffic_class(conn, tos);
                }
            }
            IdOption::AckTimeout(code) => slot.set_ack_timeout(code),
            IdOption::Transports(transports) => slot.set_transports(transports),
            IdOption::ReuseAddr(on) => {
                slot.set(flag::REUSE, on);
                if on {
                    self.ids.share_port(index);
                }
            }
            IdOption::RejectWhenFull(on) => slot.set(flag::REJECT_WHEN_FULL, on),
            IdOption::AfOnly(on) => {
                slot.set(flag::AF_ONLY, on);
                slot.set(flag::AF_EXPLICIT, true);
            }
        }
        Ok(())
    }
}
