//! What strangers may cost: connections that are half open, and answers a second. Nothing here is
//! sized by how many there are.
//!
//! Read first: DESIGN §7 (hostile networks).

use super::Conns;
use super::state::Stage;
use crate::addr::Gid;
use crate::config::Config;
use crate::stats::bump;

/// Sources are counted in so many groups; who falls into the same one shares its limit.
const GROUPS: usize = 64;

/// Nanoseconds: answers come in bursts of a second's worth at most.
const SECOND: u32 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Flood {
    /// How many connections are half open: in REQ_RCVD, SIDR_REQ_RCVD or REP_SENT.
    half_open: u32,
    /// The same by source. Where there is no limit they may wrap.
    by_source: [u16; GROUPS],
    /// What one answer costs of the time that has passed, in nanoseconds.
    answer_cost: u32,
    /// Until when the answers so far have been paid for.
    paid: u64,
}

impl Flood {
    pub(super) fn new(config: &Config) -> Flood {
        let answer_cost = SECOND.checked_div(config.answers_per_second).unwrap_or(0);
        Flood { half_open: 0, by_source: [0; GROUPS], answer_cost, paid: 0 }
    }

    /// Whether nothing is half open.
    pub(super) fn is_clean(&self) -> bool {
        self.half_open == 0 && self.by_source == [0; GROUPS]
    }
}

impl Conns<'_> {
    /// The only place where a stage changes, so that what is half open is counted.
    pub(super) fn put_stage(&mut self, index: usize, next: Stage) {
        let slot = self.slot_mut(index);
        let was = core::mem::replace(&mut slot.stage, next).is_half_open();
        let (is, source) = (next.is_half_open(), slot.path.remote_gid());
        if was != is {
            let change = u32::from(is).wrapping_sub(u32::from(was));
            let group = self.group(source);
            let count = &mut self.flood.by_source[group];
            *count = count.wrapping_add(change as u16);
            self.flood.half_open = self.flood.half_open.wrapping_add(change);
        }
    }

    /// Whether as many connections are half open as may be, in all or from this source.
    #[inline(never)]
    pub(crate) fn is_crowded(&self, source: Gid) -> bool {
        let Config { half_open, half_open_per_source, .. } = self.config;
        let of_one = self.flood.by_source[self.group(source)];
        half_open > 0 && self.flood.half_open >= half_open
            || half_open_per_source > 0 && of_one >= half_open_per_source
    }

    fn group(&self, source: Gid) -> usize {
        let [a, b, c, d] = source.words();
        // Its top bits: every bit of the word has a say in them.
        self.key.mix(&[a ^ b ^ c ^ d]) as usize >> (32 - GROUPS.ilog2())
    }

    /// Whether one more stranger may be answered now.
    pub(super) fn may_answer(&mut self) -> bool {
        let now = self.now.as_nanos();
        let paid = self.flood.paid.max(now) + u64::from(self.flood.answer_cost);
        let may = paid <= now + u64::from(SECOND);
        if may {
            self.flood.paid = paid;
        } else {
            bump(&mut self.counters.answers_limited);
        }
        may
    }
}

#[cfg(feature = "testing")]
impl Conns<'_> {
    /// What is half open is counted, in all and by source. Panics where not.
    pub(super) fn audit_flood(&self) {
        let (mut half_open, mut by_source) = (0, [0u16; GROUPS]);
        for (_, slot) in self.live().filter(|(_, slot)| slot.stage.is_half_open()) {
            half_open += 1;
            by_source[self.group(slot.path.remote_gid())] += 1;
        }
        assert_eq!(self.flood.half_open, half_open, "half-open connections");
        assert_eq!(self.flood.by_source, by_source, "half-open connections by source");
    }
}

impl Stage {
    /// Whether a stranger's request holds this slot and nothing stands yet.
    const fn is_half_open(&self) -> bool {
        matches!(self, Stage::ReqRcvd | Stage::SidrReqRcvd | Stage::RepSent(_))
    }
}
