//! Which messages belong together.
//!
//! A connection is known by its two end points and their communication IDs, a lookup (SIDR) by its
//! request ID. An ID is only good within its pair of addresses and may be used again later. Read first:
//! IBTA 12 (communication IDs), wire-format facts on TIDs: a retransmission repeats the first copy octet by
//! octet.

use std::collections::HashMap;
use std::net::IpAddr;

use nanocm::capture::Found;
use nanocm_core::addr::ServiceId;
use nanocm_core::wire::{Attribute, Message, MessageKind};

/// The messages of one connection or of one lookup, in the order of the capture.
pub(crate) struct Conversation {
    pub(crate) kind: Kind,
    /// The side that asks.
    pub(crate) left: End,
    pub(crate) right: End,
    pub(crate) service: Option<ServiceId>,
    pub(crate) steps: Vec<Step>,
    /// The transaction of the message that opened it, if that was captured.
    opened_by: Option<u64>,
    seen: Attributes,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    Connection,
    /// Service ID resolution.
    Lookup,
}

/// One side of a conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) ip: IpAddr,
    /// Communication or request ID, once a message has told it.
    pub(crate) id: Option<u32>,
}

/// A message in its conversation.
pub(crate) struct Step {
    pub(crate) found: Found,
    pub(crate) direction: Direction,
    /// The step of which this is another copy.
    pub(crate) repeats: Option<usize>,
    /// The message that must have come before and was not captured.
    pub(crate) missing: Option<Attribute>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    ToRight,
    ToLeft,
}

/// Conversations in the order in which they begin.
#[derive(Default)]
pub(crate) struct Conversations {
    all: Vec<Conversation>,
    latest: HashMap<Key, usize>,
}

/// Names the conversation that used an ID last.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    kind: Kind,
    owner: IpAddr,
    peer: IpAddr,
    id: u32,
}

impl Conversations {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Conversation> {
        self.all.iter()
    }

    /// Sorts a message into its conversation, or begins one.
    pub(crate) fn add(&mut self, found: Found) {
        let facts = Facts::of(&found.message());
        let (index, direction) = match self.find(&found, &facts) {
            Some(known) => known,
            None => self.begin(&found, &facts),
        };
        self.learn(index, direction, &facts);
        self.all[index].push(found, direction, &facts);
    }

    fn find(&self, found: &Found, facts: &Facts) -> Option<(usize, Direction)> {
        let (from, to) = (found.source, found.destination);
        let by_sender = facts.sender.map(|id| Key { kind: facts.kind, owner: from, peer: to, id });
        let by_receiver =
            facts.receiver.map(|id| Key { kind: facts.kind, owner: to, peer: from, id });
        [by_sender, by_receiver].into_iter().flatten().find_map(|key| {
            let index = *self.latest.get(&key)?;
            Some((index, self.all[index].fits(found, facts)?))
        })
    }

    fn begin(&mut self, found: &Found, facts: &Facts) -> (usize, Direction) {
        let (from, to) =
            (End { ip: found.source, id: None }, End { ip: found.destination, id: None });
        let (direction, left, right) = match facts.answers {
            true => (Direction::ToLeft, to, from),
            false => (Direction::ToRight, from, to),
        };
        self.all.push(Conversation {
            kind: facts.kind,
            left,
            right,
            service: None,
            steps: Vec::new(),
            opened_by: facts.opens.then(|| found.message().transaction_id()),
            seen: Attributes::default(),
        });
        (self.all.len() - 1, direction)
    }

    /// Takes note of what a message says of its conversation.
    fn learn(&mut self, index: usize, direction: Direction, facts: &Facts) {
        let conversation = &mut self.all[index];
        conversation.service = conversation.service.or(facts.service);
        let (from, to) = match direction {
            Direction::ToRight => (&mut conversation.left, &mut conversation.right),
            Direction::ToLeft => (&mut conversation.right, &mut conversation.left),
        };
        from.id = from.id.or(facts.sender);
        to.id = to.id.or(facts.receiver);
        for (owner, peer) in [(*from, *to), (*to, *from)] {
            if let Some(id) = owner.id {
                let key = Key { kind: facts.kind, owner: owner.ip, peer: peer.ip, id };
                self.latest.insert(key, index);
            }
        }
    }
}

impl Conversation {
    /// Whether a message belongs here, and which way it goes: no ID may differ, and one must agree.
    /// Both ways are tried, since both ends may have one address.
    fn fits(&self, found: &Found, facts: &Facts) -> Option<Direction> {
        if facts.opens && self.opened_by != Some(found.message().transaction_id()) {
            return None;
        }
        let same = |end: &End, id: Option<u32>| end.id.is_some() && end.id == id;
        let differs =
            |end: &End, id: Option<u32>| end.id.zip(id).is_some_and(|(known, told)| known != told);
        [
            (Direction::ToRight, &self.left, &self.right),
            (Direction::ToLeft, &self.right, &self.left),
        ]
        .into_iter()
        .find(|(_, from, to)| {
            (from.ip, to.ip) == (found.source, found.destination)
                && !differs(from, facts.sender)
                && !differs(to, facts.receiver)
                && (same(from, facts.sender) || same(to, facts.receiver))
        })
        .map(|(direction, ..)| direction)
    }

    fn push(&mut self, found: Found, direction: Direction, facts: &Facts) {
        let missing = facts.follows.filter(|before| !self.seen.contains(*before));
        // Once told, it is as good as seen.
        self.seen.insert(facts.attribute);
        facts.follows.inspect(|before| self.seen.insert(*before));
        let repeats = self.copy_of(&found, direction);
        self.steps.push(Step { found, direction, repeats, missing });
    }

    /// The latest message of this name and direction, if it is the same.
    fn copy_of(&self, found: &Found, direction: Direction) -> Option<usize> {
        let message = found.message();
        let before = self.steps.iter().rposition(|step| {
            step.direction == direction && step.found.message().attribute() == message.attribute()
        })?;
        (self.steps[before].found.message().mad() == message.mad()).then_some(before)
    }

    /// Whether the message that opens such a conversation was captured.
    pub(crate) fn begins_whole(&self) -> bool {
        self.opened_by.is_some()
    }
}

/// What a message says about its conversation.
struct Facts {
    attribute: Attribute,
    kind: Kind,
    /// The sender's ID; 0 on the wire is none.
    sender: Option<u32>,
    /// The receiver's ID.
    receiver: Option<u32>,
    service: Option<ServiceId>,
    /// Whether it is the first message of a conversation.
    opens: bool,
    /// Whether the passive side sends it.
    answers: bool,
    /// The message that must have come before.
    follows: Option<Attribute>,
}

impl Facts {
    fn of(message: &Message<'_>) -> Facts {
        let facts = Facts {
            attribute: message.attribute(),
            kind: Kind::Connection,
            sender: None,
            receiver: None,
            service: None,
            opens: false,
            answers: false,
            follows: None,
        };
        match message {
            Message::Req(m) => Facts {
                opens: true,
                service: Some(m.service_id()),
                ..facts.ids(m.local_comm_id(), 0)
            },
            Message::Mra(m) => Facts {
                answers: m.message_mraed() != MessageKind::REP,
                ..facts.about(m.message_mraed()).ids(m.local_comm_id(), m.remote_comm_id())
            },
            Message::Rej(m) => Facts {
                answers: m.message_rejected() == MessageKind::REQ,
                ..facts.about(m.message_rejected()).ids(m.local_comm_id(), m.remote_comm_id())
            },
            Message::Rep(m) => Facts {
                answers: true,
                ..facts.after(Attribute::REQ).ids(m.local_comm_id(), m.remote_comm_id())
            },
            Message::Rtu(m) => {
                facts.after(Attribute::REP).ids(m.local_comm_id(), m.remote_comm_id())
            }
            Message::Dreq(m) => {
                facts.after(Attribute::REP).ids(m.local_comm_id(), m.remote_comm_id())
            }
            Message::Drep(m) => {
                facts.after(Attribute::DREQ).ids(m.local_comm_id(), m.remote_comm_id())
            }
            Message::Lap(m) => {
                facts.after(Attribute::REP).ids(m.local_comm_id(), m.remote_comm_id())
            }
            Message::Apr(m) => Facts {
                answers: true,
                ..facts.after(Attribute::LAP).ids(m.local_comm_id(), m.remote_comm_id())
            },
            Message::SidrReq(m) => Facts {
                kind: Kind::Lookup,
                opens: true,
                service: Some(m.service_id()),
                ..facts.ids(m.request_id(), 0)
            },
            Message::SidrRep(m) => Facts {
                kind: Kind::Lookup,
                answers: true,
                service: Some(m.service_id()),
                ..facts.after(Attribute::SIDR_REQ).ids(0, m.request_id())
            },
        }
    }

    fn ids(self, sender: u32, receiver: u32) -> Facts {
        let some = |id| (id != 0).then_some(id);
        Facts { sender: some(sender), receiver: some(receiver), ..self }
    }

    fn after(self, before: Attribute) -> Facts {
        Facts { follows: Some(before), ..self }
    }

    fn about(self, kind: MessageKind) -> Facts {
        match kind {
            MessageKind::REQ => self.after(Attribute::REQ),
            MessageKind::REP => self.after(Attribute::REP),
            _ => self,
        }
    }
}

/// A set of CM messages.
#[derive(Clone, Copy, Default)]
struct Attributes(u32);

impl Attributes {
    fn insert(&mut self, attribute: Attribute) {
        self.0 |= 1 << (attribute.0 & 31);
    }

    fn contains(self, attribute: Attribute) -> bool {
        self.0 & 1 << (attribute.0 & 31) != 0
    }
}
