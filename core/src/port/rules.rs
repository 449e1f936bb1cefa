//! The sharing rules as masks: which kinds of owners a bind clashes with.
//!
//! An owner is of one of 24 kinds; a number's record knows which kinds are present, an address's
//! record which of the four that can differ there. So the rules (see the module's table) cost a few
//! ANDs, however many owners there are. The one thing masks cannot say, whether two owners have the
//! same peer, is looked up by 4-tuple.

use super::types::{Held, Want};
use crate::addr::ScopedIp;

/// How many kinds of owners there are.
pub(super) const KINDS: usize = 24;

/// How many of them can differ on one address.
pub(super) const ADDRESS_KINDS: usize = 4;

/// What kind of owner one is: bit 0 REUSEADDR, bit 1 has a peer; then, times four, 0 not AF-only, 1
/// IPv4 only, 2 IPv6 only; then, times twelve, 0 specific address, 1 not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind(u8);

impl Kind {
    pub(super) fn of(held: Held, local: &ScopedIp, specific: bool) -> Kind {
        let family = match (held.af_only(), local.gid.is_v4()) {
            (false, _) => 0,
            (true, true) => 4,
            (true, false) => 8,
        };
        let wild = if specific { 0 } else { 12 };
        Kind(held.reuse() as u8 + 2 * held.has_peer() as u8 + family + wild)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) const fn on_address(self) -> usize {
        self.0 as usize % ADDRESS_KINDS
    }
}

/// Of kinds on a number, those that its owners on single addresses can be of, as an address tells
/// them.
pub(super) const fn on_any_address(kinds: u32) -> u32 {
    (kinds | kinds >> 4 | kinds >> 8) & 0xf
}

/// The kinds that a bind clashes with.
#[derive(Clone, Copy)]
pub(super) struct Clash {
    /// Among the owners of the number, on whatever address.
    pub(super) on_number: u32,
    /// Among those on the same address.
    pub(super) on_address: u32,
}

impl Clash {
    /// Of a bind. Rules 1 and 2 are for explicit numbers; "any port" has rules T and 3.
    pub(super) fn of(want: &Want, specific: bool) -> Clash {
        let explicit = want.port != 0;
        let mut kinds = ALL;
        if want.remote.is_some() {
            kinds &= WITHOUT_PEER; // T: those with a peer are looked up
        }
        if want.reuse && explicit {
            kinds &= WITHOUT_REUSE; // 1
        }
        if want.af_only && explicit {
            kinds &= if want.local.gid.is_v4() { !V6_ONLY } else { !V4_ONLY }; // 2
        }
        Clash::within(kinds, specific)
    }

    /// Of a listener on a number it owns. Its own kind counts once less.
    pub(super) fn of_listener(held: Held, local: &ScopedIp, specific: bool) -> Clash {
        let kinds = match (held.af_only(), local.gid.is_v4()) {
            (false, _) => ALL,
            (true, true) => !V6_ONLY & ALL,
            (true, false) => !V4_ONLY & ALL,
        };
        Clash::within(kinds, specific)
    }

    /// Rule 3: on a specific address only the owners there count, and those that overlap with all.
    fn within(kinds: u32, specific: bool) -> Clash {
        if specific {
            Clash { on_number: kinds & WILD, on_address: kinds & 0xf }
        } else {
            Clash { on_number: kinds, on_address: 0 }
        }
    }
}

const ALL: u32 = 0xff_ffff;
const WITHOUT_REUSE: u32 = 0x55_5555;
const WITHOUT_PEER: u32 = 0x33_3333;
const V4_ONLY: u32 = 0x0f_00f0;
const V6_ONLY: u32 = 0xf0_0f00;
const WILD: u32 = 0xff_f000;
