//! Generational handles: a stale one is an error value, never another connection.

use core::fmt;

/// An identifier (`rdma_cm_id`). Copy it freely: once the ID is destroyed every copy is stale.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Id {
    /// As one number, for C and for maps.
    pub const fn to_raw(self) -> u64 {
        ((self.generation as u64) << 32) | self.index as u64
    }

    /// From such a number. Any number makes a handle; only a live one is good for anything.
    pub const fn from_raw(raw: u64) -> Id {
        Id { index: raw as u32, generation: (raw >> 32) as u32 }
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "id{}.{}", self.index, self.generation)
    }
}

/// A host request handed out by `poll_request`, to be answered with `handle_completion`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId {
    pub(crate) id: Id,
    pub(crate) sequence: u8,
}

impl RequestId {
    /// The identifier that asks, and which of its questions this is: for C.
    pub const fn to_parts(self) -> (Id, u8) {
        (self.id, self.sequence)
    }

    /// From such parts. Any make a request; only an open one can be answered.
    pub const fn from_parts(id: Id, sequence: u8) -> RequestId {
        RequestId { id, sequence }
    }
}

/// Names one transmission, for `handle_send_failed`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SendToken(pub(crate) u64);

impl SendToken {
    /// As a number, for C and for transports that carry one.
    pub const fn to_raw(self) -> u64 {
        self.0
    }

    /// From such a number.
    pub const fn from_raw(raw: u64) -> SendToken {
        SendToken(raw)
    }
}
