//! [`Picture`]: what an engine's future depends on, to tell states apart in the model.

use crate::wire::{Mad, Message};
use crate::{Cm, Path};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Numbers. Two engines with one picture have the same future, but for names.
///
/// What only has to be the same or not (communication IDs, transaction IDs) is a name: it is
/// replaced by its place in the order of first appearance. Times count from now. What decides nothing
/// (generations, PSNs, counters, private data, where the generators are) is left out.
#[derive(Default)]
pub struct Picture {
    numbers: Vec<u64>,
    names: Vec<u64>,
}

impl Picture {
    /// Adds a number.
    pub fn put(&mut self, number: u64) {
        self.numbers.push(number);
    }

    /// Adds several.
    pub fn put_all<const N: usize>(&mut self, numbers: [u64; N]) {
        self.numbers.extend(numbers);
    }

    /// Adds a list of numbers.
    pub fn list(&mut self, numbers: impl IntoIterator<Item = usize>) {
        let start = self.numbers.len();
        self.numbers.push(0);
        self.numbers.extend(numbers.into_iter().map(|n| n as u64));
        self.numbers[start] = (self.numbers.len() - start) as u64;
    }

    /// Adds a name; 0 is none.
    pub fn name(&mut self, name: u64) {
        let known = self.names.iter().position(|known| *known == name);
        let place = known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        self.numbers.push(if name == 0 { 0 } else { place as u64 + 1 });
    }

    /// Adds a queue pair's number, which is a name too.
    pub fn queue_pair(&mut self, qpn: u32) {
        self.name(if qpn == 0 { 0 } else { 1 << 40 | u64::from(qpn) });
    }

    /// Adds the far end of a path.
    pub fn path(&mut self, path: &Path) {
        let gid = path.remote_gid().0;
        self.put(gid.iter().fold(0, |sum: u64, &octet| sum.rotate_left(8) ^ u64::from(octet)));
    }

    /// Adds a datagram: its kind, its names and what the receiver decides by.
    pub fn datagram(&mut self, mad: &Mad) {
        let Ok(message) = Message::parse(mad) else { return self.put(0) };
        self.put(u64::from(message.view().attribute().0));
        self.name(u64::from_be_bytes(*mad[8..].first_chunk().expect("a MAD is longer")));
        let (own, peers, qpn, more) = match &message {
            Message::Req(m) => (m.local_comm_id(), 0, m.local_qpn(), m.path_mtu()),
            Message::Rep(m) => (m.local_comm_id(), m.remote_comm_id(), m.local_qpn(), 0),
            Message::Rtu(m) => (m.local_comm_id(), m.remote_comm_id(), 0, 0),
            Message::Rej(m) => {
                let code = (m.reason().0 as u8) << 2 | m.message_rejected().0;
                (m.local_comm_id(), m.remote_comm_id(), 0, code)
            }
            Message::Dreq(m) => (m.local_comm_id(), m.remote_comm_id(), m.remote_qpn(), 0),
            Message::Drep(m) => (m.local_comm_id(), m.remote_comm_id(), 0, 0),
            Message::Mra(m) => {
                let code = m.service_timeout() << 2 | m.message_mraed().0;
                (m.local_comm_id(), m.remote_comm_id(), 0, code)
            }
            Message::SidrReq(m) => (m.request_id(), 0, 0, 0),
            Message::SidrRep(m) => (0, m.request_id(), m.qpn(), m.status().0),
            Message::Lap(m) => (m.local_comm_id(), m.remote_comm_id(), 0, 0),
            Message::Apr(m) => (m.local_comm_id(), m.remote_comm_id(), 0, 0),
        };
        self.name(u64::from(own));
        self.name(u64::from(peers));
        self.queue_pair(qpn);
        self.put(u64::from(more));
    }

    /// All of it in one number.
    pub fn digest(&self) -> u128 {
        digest(&self.numbers)
    }
}

/// Anything in one number, the same in every run.
pub fn digest(what: &impl Hash) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        what.hash(&mut hasher);
        hasher.finish()
    };
    u128::from(half(1)) << 64 | u128::from(half(2))
}

impl Cm<'_> {
    /// Adds an engine to a picture.
    pub fn paint(&self, picture: &mut Picture) {
        self.conns.paint(|id| self.ids.rank(id), picture);
        self.ids.paint(&self.conns, picture);
        self.gids.paint(picture);
        self.sweep.paint(picture);
    }
}
