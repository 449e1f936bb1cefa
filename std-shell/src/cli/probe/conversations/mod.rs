//! The conversations, as a table: what is sent, what may follow, and a small function that plays it.
//!
//! | file | about |
//! |---|---|
//! | `frames.rs` | BTH, DETH, ICRC, MAD header |
//! | `strangers.rs` | messages with identifiers that nobody knows |
//! | `requests.rs` | REQs that are refused, or odd and accepted |
//! | `connections.rs` | connections: how they come, end, and go wrong |
//! | `repeats.rs` | repetitions and their timing |
//! | `datagrams.rs` | SIDR |
//! | `rude.rs` | payloads that are no MADs |
//!
//! What may follow: what the specification asks for or leaves open, and what Linux is known to do. The
//! text of IBTA was not at hand. "As specified" is our reading of it, by way of facts, wire-formats §2, §6.3
//! and appendix B, and of what the CMs of Linux and illumos do; docs/deviations.md.

mod connections;
mod datagrams;
mod frames;
mod repeats;
mod requests;
mod rude;
mod strangers;

use super::talk::Talk;
use super::verdict::Stop;

/// What must be there at the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Needs {
    /// No more than its CM.
    Nothing,
    /// A listener at the port, whatever it does.
    Listener,
    /// A listener that accepts; conversations with it go on one after the other.
    Acceptor,
    /// A datagram service at the port that answers.
    Service,
    /// Permission: it is the end of some CMs.
    Rudeness,
}

/// One of them.
pub(super) struct Conversation {
    /// Part of the program's contract: never reused for anything else.
    pub(super) name: &'static str,
    pub(super) needs: Needs,
    pub(super) sent: &'static str,
    pub(super) expected: &'static str,
    pub(super) play: fn(&mut Talk<'_>) -> Result<(), Stop>,
}

const fn of(
    name: &'static str,
    needs: Needs,
    sent: &'static str,
    expected: &'static str,
    play: fn(&mut Talk<'_>) -> Result<(), Stop>,
) -> Conversation {
    Conversation { name, needs, sent, expected, play }
}

/// All, in the order of the report: those that may go on side by side first, the rude ones last.
pub(super) fn all() -> impl Iterator<Item = &'static Conversation> {
    [
        frames::TABLE,
        strangers::TABLE,
        requests::REFUSED,
        datagrams::TABLE,
        requests::ACCEPTED,
        connections::TABLE,
        repeats::TABLE,
        rude::TABLE,
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own() {
        let mut names: Vec<_> = all().map(|conversation| conversation.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        let is_name =
            |name: &&str| name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        assert!(names.iter().all(is_name));
    }
}
