//! Events as the program prints them: a JSON object or a sentence each.

use super::output::{Object, print_line, print_object};
use nanocm::core::Path;
use nanocm::future::Service;
use nanocm::{Cause, Error, Event, EventKind, PortSpace, RejectReason, SidrStatus};
use serde_json::{Number, Value};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Prints events, and gives each identifier a number that is unique in the run.
pub(crate) struct Reporter {
    json: bool,
    /// In which the run has its identifiers.
    space: PortSpace,
    numbers: HashMap<nanocm::core::Id, u64>,
    next: u64,
}

impl Reporter {
    pub(crate) fn new(json: bool, space: PortSpace) -> Reporter {
        Reporter { json, space, numbers: HashMap::new(), next: 1 }
    }

    /// An event of an identifier, with what belongs to it. `listener` as for CONNECT_REQUEST.
    pub(crate) fn event(
        &mut self,
        event: &Event,
        listener: Option<nanocm::core::Id>,
    ) -> io::Result<()> {
        let number = self.number(event.id);
        let mut object = object(event.kind.name(), number, event.local, Some(event.peer));
        if let Some(listener) = listener {
            put(&mut object, "listener", self.number(listener));
        }
        match event.kind {
            EventKind::Rejected(reason) => put_reason(&mut object, reason.0, reason.text()),
            EventKind::Disconnected(cause) => put(&mut object, "cause", cause.name()),
            _ => {}
        }
        if !event.private_data.is_empty() {
            put(&mut object, "private_data", hex(&event.private_data));
        }
        self.print(object, &self.sentence(event))
    }

    /// LISTENING.
    pub(crate) fn listening(&mut self, id: nanocm::core::Id, local: SocketAddr) -> io::Result<()> {
        let object = object("LISTENING", self.number(id), local, None);
        let what = if self.space.is_connected() { "" } else { " for datagrams" };
        self.print(object, &format!("listening{what} on {local}"))
    }

    /// REJECTED by us.
    pub(crate) fn rejected_by_us(
        &mut self,
        request: &Event,
        listener: nanocm::core::Id,
        reason: RejectReason,
    ) -> io::Result<()> {
        let (number, text, words) = match (self.space.is_connected(), reason) {
            (true, _) => (reason.0, reason.text(), format!("reason {reason}")),
            // SIDR has fewer words than REJ.
            (false, RejectReason::NO_QP) => of_status(SidrStatus::NO_QP),
            (false, _) => of_status(SidrStatus::REJECTED),
        };
        let mut object = self.of_request("REJECTED", request, listener);
        put_reason(&mut object, number, text);
        self.print(object, &format!("rejected {}: {words}", request.peer))
    }

    /// ANSWERED by us: a datagram service, with this queue pair.
    pub(crate) fn answered(
        &mut self,
        request: &Event,
        listener: nanocm::core::Id,
        qpn: u32,
        qkey: u32,
    ) -> io::Result<()> {
        let mut object = self.of_request("ANSWERED", request, listener);
        put(&mut object, "qpn", qpn);
        put(&mut object, "qkey", qkey);
        let words = format!("answered {}: {}", request.peer, queue_pair(qpn, qkey));
        self.print(object, &words)
    }

    /// RESOLVED: the only identifier of this run has what it asked for.
    pub(crate) fn resolved(&mut self, service: &Service) -> io::Result<()> {
        let (local, peer) = (service.id().local_addr(), service.peer());
        let local = local.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
        let mut object = object("RESOLVED", 1, local, Some(peer));
        put(&mut object, "qpn", service.qpn());
        put(&mut object, "qkey", service.qkey());
        if let Some(path) = service.path() {
            put(&mut object, "ah", address_handle(&path));
        }
        put(&mut object, "private_data", hex(service.private_data()));
        let words = format!("{peer} is {}", queue_pair(service.qpn(), service.qkey()));
        self.print(object, &words)
    }

    /// REJECTED or UNREACHABLE, as far as somebody was asked: the only identifier of this run.
    pub(crate) fn not_resolved(&mut self, error: &Error) -> io::Result<()> {
        let (Some(local), Some(peer)) = (error.local, error.peer) else { return Ok(()) };
        match &error.cause {
            Cause::SidrRejected(rejection) => {
                let status = rejection.status;
                let mut object = object("REJECTED", 1, local, Some(peer));
                put_reason(&mut object, status.0.into(), status.text());
                put(&mut object, "private_data", hex(&rejection.private_data));
                let words =
                    format!("{peer} rejected {local}: {} (status {})", status.text(), status.0);
                self.print(object, &words)
            }
            Cause::Unreachable(_) | Cause::TimedOut => {
                let object = object("UNREACHABLE", 1, local, Some(peer));
                self.print(object, &format!("{peer} does not answer {local}"))
            }
            _ => Ok(()),
        }
    }

    /// Forgets an identifier that is no more.
    pub(crate) fn forget(&mut self, id: nanocm::core::Id) {
        self.numbers.remove(&id);
    }

    /// What we did to a request.
    fn of_request(&mut self, name: &str, request: &Event, listener: nanocm::core::Id) -> Object {
        let number = self.number(request.id);
        let mut object = object(name, number, request.local, Some(request.peer));
        put(&mut object, "listener", self.number(listener));
        object
    }

    fn number(&mut self, id: nanocm::core::Id) -> u64 {
        let next = &mut self.next;
        *self.numbers.entry(id).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }

    fn sentence(&self, event: &Event) -> String {
        let (local, peer) = (event.local, event.peer);
        match event.kind {
            EventKind::ConnectRequest { .. } if !self.space.is_connected() => {
                format!("{peer} asks for {local}")
            }
            EventKind::ConnectRequest { .. } => format!("{peer} asks to connect to {local}"),
            EventKind::Established => format!("{local} and {peer} are connected"),
            EventKind::Rejected(reason) => {
                format!("{peer} rejected {local}: {} (reason {})", reason.text(), reason.0)
            }
            EventKind::Unreachable(_) => format!("{peer} does not answer {local}"),
            EventKind::ConnectError(_) => {
                format!("{peer} was not answered by {local} in time, and is rejected")
            }
            EventKind::Disconnected(cause) => {
                format!("{local} and {peer} are disconnected ({})", cause.name())
            }
            EventKind::AddrChange => format!("{local} {peer}: the link layer beneath has changed"),
            EventKind::DeviceRemoval => format!("{local}: the device is gone"),
            _ => format!("{local} {peer}: {}", event.kind.name()),
        }
    }

    fn print(&self, object: Object, words: &str) -> io::Result<()> {
        if self.json { print_object(&object) } else { print_line(words) }
    }
}

/// What every event has.
fn object(name: &str, id: u64, local: SocketAddr, peer: Option<SocketAddr>) -> Object {
    let mut object = Object::new();
    put(&mut object, "event", name);
    put(&mut object, "id", id);
    put(&mut object, "local", local.to_string());
    if let Some(peer) = peer {
        put(&mut object, "peer", peer.to_string());
    }
    put(&mut object, "time", now());
    object
}

/// What goes into an address handle (`struct ibv_ah_attr`).
fn address_handle(path: &Path) -> Object {
    let mut object = Object::new();
    put(&mut object, "sgid", path.local_gid().to_string());
    put(&mut object, "dgid", path.remote_gid().to_string());
    let (traffic_class, flow_label, hop_limit) = match path {
        Path::Roce(roce) => (roce.traffic_class, roce.flow_label, roce.hop_limit),
        Path::Ib(ib) => {
            put(&mut object, "dlid", ib.lid);
            put(&mut object, "sl", ib.sl);
            (ib.traffic_class, ib.flow_label, ib.hop_limit)
        }
        _ => return object,
    };
    put(&mut object, "traffic_class", traffic_class);
    put(&mut object, "flow_label", flow_label);
    put(&mut object, "hop_limit", hop_limit);
    object
}

fn queue_pair(qpn: u32, qkey: u32) -> String {
    format!("QPN {qpn:#x} with Q_Key {qkey:#010x}")
}

fn put(object: &mut Object, name: &str, value: impl Into<Value>) {
    object.insert(name.into(), value.into());
}

fn of_status(status: SidrStatus) -> (u16, &'static str, String) {
    (status.0.into(), status.text(), format!("status {status}"))
}

fn put_reason(object: &mut Object, number: u16, text: &str) {
    put(object, "reason", number);
    put(object, "reason_text", text);
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
