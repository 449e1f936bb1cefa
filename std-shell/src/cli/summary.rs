//! The fields of a message that matter, each as a short text, the weightiest first.
//!
//! For people: the lines of `decode`, the rows of a ladder, the messages that `demo` shows. Read first:
//! IBTA 12.

use std::fmt;
use std::time::Duration;

use nanocm_core::time::code_to_duration;
use nanocm_core::wire::{Mad, Message, MessageKind, Mra, Rej, Rep, Req, SidrRep, SidrReq};

use super::record::RequestData;

/// The fields of a message that matter: none for an RTU or DREP without private data.
pub(crate) fn summary(message: &Message<'_>) -> Vec<String> {
    match message {
        Message::Req(m) => req(m),
        Message::Mra(m) => mra(m),
        Message::Rej(m) => rej(m),
        Message::Rep(m) => rep(m),
        Message::Rtu(m) => present([data(m.private_data())]),
        Message::Dreq(m) => present([Some(qpn(m.remote_qpn())), data(m.private_data())]),
        Message::Drep(m) => present([data(m.private_data())]),
        Message::SidrReq(m) => sidr_req(m),
        Message::SidrRep(m) => sidr_rep(m),
        Message::Lap(m) => {
            let (from, to) = (m.alternate_local_gid(), m.alternate_remote_gid());
            vec![format!("path from {}", from.to_ip()), format!("to {}", to.to_ip())]
        }
        Message::Apr(m) => vec![format!("status {}", m.ap_status())],
    }
}

fn req(req: &Req<&Mad>) -> Vec<String> {
    let transport = match (req.transport_service_type(), req.extended_transport_type()) {
        (0, _) => None,
        (1, _) => Some("UC".into()),
        (2, _) => Some("RD".into()),
        (_, 1) => Some("XRC".into()),
        (_, extended) => Some(format!("transport 3/{extended}")),
    };
    present([
        Some(req.service_id().to_string()),
        Some(qpn(req.local_qpn())),
        Some(psn(req.starting_psn())),
        transport,
        data(RequestData::of_req(req).data),
    ])
}

fn rep(rep: &Rep<&Mad>) -> Vec<String> {
    present([Some(qpn(rep.local_qpn())), Some(psn(rep.starting_psn())), data(rep.private_data())])
}

fn mra(mra: &Mra<&Mad>) -> Vec<String> {
    let what = match mra.message_mraed() {
        MessageKind::OTHER => "LAP",
        kind => kind.name().unwrap_or("unknown message"),
    };
    let wait = code_to_duration(mra.service_timeout());
    present([
        Some(format!("{what} received")),
        Some(format!("wait {}", Time(wait))),
        data(mra.private_data()),
    ])
}

fn rej(rej: &Rej<&Mad>) -> Vec<String> {
    let what = match rej.message_rejected() {
        MessageKind::OTHER => None,
        kind => kind.name().map(|name| format!("{name} rejected")),
    };
    let ari = match rej.additional_info() {
        [] => None,
        info if info.len() <= 16 => Some(format!("ARI {}", hex(info))),
        info => Some(format!("ARI of {} octets", info.len())),
    };
    present([what, Some(format!("reason {}", rej.reason())), ari, data(rej.private_data())])
}

fn sidr_req(req: &SidrReq<&Mad>) -> Vec<String> {
    present([Some(req.service_id().to_string()), data(RequestData::of_sidr_req(req).data)])
}

fn sidr_rep(rep: &SidrRep<&Mad>) -> Vec<String> {
    let valid = rep.status() == nanocm_core::wire::SidrStatus::VALID;
    present([
        Some(format!("status {}", rep.status())),
        valid.then(|| qpn(rep.qpn())),
        valid.then(|| format!("Q_Key {:#010x}", rep.qkey())),
        data(rep.private_data()),
    ])
}

fn present<const N: usize>(texts: [Option<String>; N]) -> Vec<String> {
    texts.into_iter().flatten().collect()
}

fn qpn(qpn: u32) -> String {
    format!("QPN {qpn:#x}")
}

fn psn(psn: u32) -> String {
    format!("PSN {psn:#08x}")
}

/// The length is not on the wire: zeros at the end may be data or padding.
fn data(field: &[u8]) -> Option<String> {
    let length = field.iter().rposition(|octet| *octet != 0)? + 1;
    Some(format!("data {length} B"))
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// A time to read at a glance: `6.2 s`, `280 ms`, `52 µs`.
pub(crate) struct Time(pub(crate) Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_micros() {
            micros @ 0..1_000 => write!(f, "{micros} µs"),
            micros @ 1_000..1_000_000 => write!(f, "{} ms", micros / 1_000),
            _ => write!(f, "{:.1} s", self.0.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nanocm_core::addr::{PortSpace, ServiceId};
    use nanocm_core::wire::{RejectReason, SidrStatus};

    #[test]
    fn a_request_names_its_service_and_queue_pair() {
        let mut mad = [0; 256];
        let mut req = Req::emit(&mut mad, 1);
        req.set_service_id(ServiceId::new(PortSpace::Tcp, 4420)).set_local_qpn(0x11);
        req.set_starting_psn(0xabc).set_consumer_data(b"hello").unwrap();
        let text = summary(&Message::parse(&mad).unwrap()).join(", ");
        // No IP version in what should be the IP CM header: all of it is private data.
        assert_eq!(text, "RDMA tcp port 4420, QPN 0x11, PSN 0x000abc, data 41 B");
    }

    #[test]
    fn a_reject_says_what_and_why() {
        let mut mad = [0; 256];
        let mut rej = Rej::emit(&mut mad, 1);
        rej.set_message_rejected(MessageKind::REP).set_reason(RejectReason::TIMEOUT);
        rej.set_additional_info(&[0xab, 0xcd]);
        let text = summary(&Message::parse(&mad).unwrap()).join(", ");
        assert_eq!(text, "REP rejected, reason 4 (timeout), ARI abcd");
    }

    #[test]
    fn a_refused_lookup_shows_no_queue_pair() {
        let mut mad = [0; 256];
        SidrRep::emit(&mut mad, 1).set_status(SidrStatus::REJECTED).set_qpn(7);
        let text = summary(&Message::parse(&mad).unwrap()).join(", ");
        assert_eq!(text, "status 2 (rejected)");
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        for (micros, text) in
            [(52, "52 µs"), (280_400, "280 ms"), (6_200_000, "6.2 s"), (68_719_476, "68.7 s")]
        {
            assert_eq!(Time(Duration::from_micros(micros)).to_string(), text);
        }
    }
}
