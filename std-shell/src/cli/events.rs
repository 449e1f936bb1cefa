//! Events as the program prints them: a JSON object or a sentence each.

use super::output::{Object, print_line, print_object};
use nanocm::{Event, EventKind, RejectReason};
use serde_json::{Number, Value};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Prints events, and gives each identifier a number that is unique in the run.
pub(crate) struct Reporter {
    json: bool,
    numbers: HashMap<nanocm::core::Id, u64>,
    next: u64,
}

impl Reporter {
    pub(crate) fn new(json: bool) -> Reporter {
        Reporter { json, numbers: HashMap::new(), next: 1 }
    }

    /// An event of an identifier, with what belongs to it. `listener` as for CONNECT_REQUEST.
    pub(crate) fn event(
        &mut self,
        event: &Event,
        listener: Option<nanocm::core::Id>,
    ) -> io::Result<()> {
        let mut object = self.object(event.kind.name(), event.id, event.local, Some(event.peer));
        if let Some(listener) = listener {
            let number = self.number(listener);
            object.insert("listener".into(), number.into());
        }
        match event.kind {
            EventKind::Rejected(reason) => put_reason(&mut object, reason),
            EventKind::Disconnected(cause) => put(&mut object, "cause", cause.name()),
            _ => {}
        }
        if !event.private_data.is_empty() {
            put(&mut object, "private_data", hex(&event.private_data));
        }
        self.print(object, &sentence(event))
    }

    /// LISTENING.
    pub(crate) fn listening(&mut self, id: nanocm::core::Id, local: SocketAddr) -> io::Result<()> {
        let object = self.object("LISTENING", id, local, None);
        self.print(object, &format!("listening on {local}"))
    }

    /// REJECTED by us.
    pub(crate) fn rejected_by_us(
        &mut self,
        request: &Event,
        listener: nanocm::core::Id,
        reason: RejectReason,
    ) -> io::Result<()> {
        let mut object = self.object("REJECTED", request.id, request.local, Some(request.peer));
        let number = self.number(listener);
        object.insert("listener".into(), number.into());
        put_reason(&mut object, reason);
        self.print(object, &format!("rejected {}: reason {reason}", request.peer))
    }

    /// Forgets an identifier that is no more.
    pub(crate) fn forget(&mut self, id: nanocm::core::Id) {
        self.numbers.remove(&id);
    }

    fn object(
        &mut self,
        name: &str,
        id: nanocm::core::Id,
        local: SocketAddr,
        peer: Option<SocketAddr>,
    ) -> Object {
        let mut object = Object::new();
        put(&mut object, "event", name);
        object.insert("id".into(), self.number(id).into());
        put(&mut object, "local", local.to_string());
        if let Some(peer) = peer {
            put(&mut object, "peer", peer.to_string());
        }
        object.insert("time".into(), now());
        object
    }

    fn number(&mut self, id: nanocm::core::Id) -> u64 {
        let next = &mut self.next;
        *self.numbers.entry(id).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }

    fn print(&self, object: Object, words: &str) -> io::Result<()> {
        if self.json { print_object(&object) } else { print_line(words) }
    }
}

fn put(object: &mut Object, name: &str, value: impl Into<Value>) {
    object.insert(name.into(), value.into());
}

fn put_reason(object: &mut Object, reason: RejectReason) {
    put(object, "reason", reason.0);
    put(object, "reason_text", reason.text());
}

/// Seconds since the epoch, to the microsecond.
pub(crate) fn now() -> Value {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let digits = format!("{}.{:06}", since.as_secs(), since.subsec_micros());
    Number::from_str(&digits).map_or(Value::Null, Value::Number)
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn sentence(event: &Event) -> String {
    let (local, peer) = (event.local, event.peer);
    match event.kind {
        EventKind::ConnectRequest { .. } => format!("{peer} asks to connect to {local}"),
        EventKind::Established => format!("{local} and {peer} are connected"),
        EventKind::Rejected(reason) => {
            format!("{peer} rejected {local}: {} (reason {})", reason.text(), reason.0)
        }
        EventKind::Unreachable(_) => format!("{peer} does not answer {local}"),
        EventKind::Disconnected(cause) => {
            format!("{local} and {peer} are disconnected ({})", cause.name())
        }
        EventKind::AddrChange => format!("{local} {peer}: the link layer beneath has changed"),
        EventKind::DeviceRemoval => format!("{local}: the device is gone"),
        _ => format!("{local} {peer}: {}", event.kind.name()),
    }
}
