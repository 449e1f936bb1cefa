//! A message as a JSON object, with the fields that `docs/cli.md` gives to `decode`, in its order.
//!
//! Read first: IBTA 12, tables 106 to 120. A field that a message does not have is left out.

use nanocm_core::addr::ServiceId;
use nanocm_core::wire::icrc::Integrity;
use nanocm_core::wire::ip_cm::IpCmView;
use nanocm_core::wire::{Apr, Lap, Mad, Message, Mra, Rej, Rep, Req, SidrRep, SidrReq};
use serde_json::{Number, Value};

use nanocm::capture::Found;

use super::output::Object;
use super::summary::hex;

/// The object for a message in a capture.
pub(crate) fn object(found: &Found) -> Object {
    let message = found.message();
    let mut record = Record(Object::new());
    record.put("frame", found.frame);
    // As a number with all its digits; a float would round the last ones.
    record.put_some("time", found.time.and_then(|time| time.to_string().parse::<Number>().ok()));
    record.put("src", found.source.to_string());
    record.put("dst", found.destination.to_string());
    record.put("message", message.attribute().to_string());
    record.put("attr", message.attribute().0);
    record.put("tid", hex64(message.transaction_id()));
    let data = record.body(&message);
    record.put(
        "icrc",
        match found.integrity {
            Integrity::Ok => "ok",
            Integrity::Bad => "bad",
            Integrity::Unchecked => "unchecked",
        },
    );
    record.put("private_data", hex(data.data));
    record.put_some("ip_cm", data.header.map(ip_cm));
    record.0
}

/// The private data of a message that may begin with an IP CM header.
pub(crate) struct RequestData<'a> {
    pub(crate) header: Option<IpCmView<'a>>,
    /// What follows the header, or all of it if there is none.
    pub(crate) data: &'a [u8],
}

impl<'a> RequestData<'a> {
    pub(crate) fn of_req(req: &Req<&'a Mad>) -> RequestData<'a> {
        let header = ip_cm_header(req.service_id(), req.ip_cm_view());
        let data: &[u8] = if header.is_some() { req.consumer_data() } else { req.private_data() };
        RequestData { header, data }
    }

    pub(crate) fn of_sidr_req(req: &SidrReq<&'a Mad>) -> RequestData<'a> {
        let header = ip_cm_header(req.service_id(), req.ip_cm_view());
        let data: &[u8] = if header.is_some() { req.consumer_data() } else { req.private_data() };
        RequestData { header, data }
    }

    /// For the messages that never have the header.
    fn plain(data: &'a [u8]) -> RequestData<'a> {
        RequestData { header: None, data }
    }
}

/// There is a header if the service is one of the IP CM service and the IP version makes sense. A
/// wrong version of the header itself is shown: it explains a REJ 28.
fn ip_cm_header(service: ServiceId, view: IpCmView<'_>) -> Option<IpCmView<'_>> {
    (service.to_port().is_some() && matches!(view.ip_version(), 4 | 6)).then_some(view)
}

struct Record(Object);

impl Record {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }

    fn put_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// The fields of the message itself but for its private data, which comes back.
    fn body<'a>(&mut self, message: &Message<'a>) -> RequestData<'a> {
        match message {
            Message::Req(m) => self.req(m),
            Message::Mra(m) => self.mra(m),
            Message::Rej(m) => self.rej(m),
            Message::Rep(m) => self.rep(m),
            Message::Rtu(m) => {
                self.comm_ids(m.local_comm_id(), m.remote_comm_id());
                RequestData::plain(m.private_data())
            }
            Message::Dreq(m) => {
                self.comm_ids(m.local_comm_id(), m.remote_comm_id());
                self.put("qpn", m.remote_qpn());
                RequestData::plain(m.private_data())
            }
            Message::Drep(m) => {
                self.comm_ids(m.local_comm_id(), m.remote_comm_id());
                RequestData::plain(m.private_data())
            }
            Message::SidrReq(m) => self.sidr_req(m),
            Message::SidrRep(m) => self.sidr_rep(m),
            Message::Lap(m) => self.lap(m),
            Message::Apr(m) => self.apr(m),
        }
    }

    fn comm_ids(&mut self, local: u32, remote: u32) {
        self.put("local_comm_id", hex32(local));
        self.put("remote_comm_id", hex32(remote));
    }

    fn req<'a>(&mut self, m: &Req<&'a Mad>) -> RequestData<'a> {
        self.put("local_comm_id", hex32(m.local_comm_id()));
        self.put("service_id", hex64(m.service_id().0));
        self.put("ca_guid", hex64(m.local_ca_guid()));
        self.put("qpn", m.local_qpn());
        self.put("qkey", m.local_qkey());
        self.put("psn", m.starting_psn());
        self.put("pkey", m.partition_key());
        self.put_some("path_mtu", mtu(m.path_mtu()));
        self.put("transport", m.transport_service_type());
        self.put("retry_count", m.retry_count());
        self.put("rnr_retry_count", m.rnr_retry_count());
        self.put("resp_res", m.responder_resources());
        self.put("init_depth", m.initiator_depth());
        self.put("remote_cm_response_timeout", m.remote_cm_response_timeout());
        self.put("local_cm_response_timeout", m.local_cm_response_timeout());
        self.put("max_cm_retries", m.max_cm_retries());
        RequestData::of_req(m)
    }

    fn rep<'a>(&mut self, m: &Rep<&'a Mad>) -> RequestData<'a> {
        self.comm_ids(m.local_comm_id(), m.remote_comm_id());
        self.put("ca_guid", hex64(m.local_ca_guid()));
        self.put("qpn", m.local_qpn());
        self.put("qkey", m.local_qkey());
        self.put("psn", m.starting_psn());
        self.put("rnr_retry_count", m.rnr_retry_count());
        self.put("resp_res", m.responder_resources());
        self.put("init_depth", m.initiator_depth());
        RequestData::plain(m.private_data())
    }

    fn mra<'a>(&mut self, m: &Mra<&'a Mad>) -> RequestData<'a> {
        self.comm_ids(m.local_comm_id(), m.remote_comm_id());
        self.put("service_timeout", m.service_timeout());
        self.put("message_mraed", m.message_mraed().0);
        RequestData::plain(m.private_data())
    }

    fn rej<'a>(&mut self, m: &Rej<&'a Mad>) -> RequestData<'a> {
        self.comm_ids(m.local_comm_id(), m.remote_comm_id());
        self.put("reason", m.reason().0);
        self.put("rejected_message", m.message_rejected().0);
        self.additional_info(m.additional_info());
        RequestData::plain(m.private_data())
    }

    fn sidr_req<'a>(&mut self, m: &SidrReq<&'a Mad>) -> RequestData<'a> {
        self.put("request_id", hex32(m.request_id()));
        self.put("service_id", hex64(m.service_id().0));
        self.put("pkey", m.partition_key());
        RequestData::of_sidr_req(m)
    }

    fn sidr_rep<'a>(&mut self, m: &SidrRep<&'a Mad>) -> RequestData<'a> {
        self.put("request_id", hex32(m.request_id()));
        self.put("service_id", hex64(m.service_id().0));
        self.put("qpn", m.qpn());
        self.put("qkey", m.qkey());
        self.additional_info(stated(m.additional_info(), m.additional_info_length()));
        self.put("status", m.status().0);
        RequestData::plain(m.private_data())
    }

    fn lap<'a>(&mut self, m: &Lap<&'a Mad>) -> RequestData<'a> {
        self.comm_ids(m.local_comm_id(), m.remote_comm_id());
        self.put("qpn", m.remote_qpn());
        self.put("remote_cm_response_timeout", m.remote_cm_response_timeout());
        RequestData::plain(m.private_data())
    }

    fn apr<'a>(&mut self, m: &Apr<&'a Mad>) -> RequestData<'a> {
        self.comm_ids(m.local_comm_id(), m.remote_comm_id());
        self.additional_info(stated(m.additional_info(), m.additional_info_length()));
        self.put("status", m.ap_status().0);
        RequestData::plain(m.private_data())
    }

    fn additional_info(&mut self, info: &[u8]) {
        self.put_some("ari", (!info.is_empty()).then(|| hex(info)));
    }
}

/// As much of the field as the sender says is filled.
fn stated(field: &[u8; 72], length: u8) -> &[u8] {
    field.get(..usize::from(length)).unwrap_or(field)
}

fn ip_cm(header: IpCmView<'_>) -> Object {
    let mut record = Record(Object::new());
    record.put("version", header.version());
    record.put("ip_version", header.ip_version());
    record.put("src_port", header.source_port());
    record.put("src", header.source().to_string());
    record.put("dst", header.destination().to_string());
    record.0
}

/// Octets; nothing for a code without meaning.
fn mtu(code: u8) -> Option<u32> {
    matches!(code, 1..=5).then(|| 128 << code)
}

fn hex32(value: u32) -> String {
    format!("{value:#010x}")
}

fn hex64(value: u64) -> String {
    format!("{value:#018x}")
}
