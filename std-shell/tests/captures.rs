//! What Linux really sends (`tests/captures`): it decodes to what an independent decoder sees, encodes to
//! the same octets again, and no damage to it makes us panic.

use std::fs;
use std::path::{Path, PathBuf};

use nanocm::capture::{Found, Messages};
use nanocm_core::wire::icrc::Integrity;
use nanocm_core::wire::{
    Apr, Drep, Dreq, FieldValue, Header, Lap, Mad, Message, Mra, Rej, Rep, Req, Rtu, SidrRep,
    SidrReq, View,
};
use serde_json::Value;

fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pcap"))
        .collect();
    files.sort();
    assert_eq!(files.len(), 18);
    files
}

fn messages(path: &Path) -> Vec<Found> {
    let mut messages = Messages::open(fs::File::open(path).unwrap()).unwrap();
    let found = messages.by_ref().map(Result::unwrap).collect();
    let tally = messages.tally();
    let left_out = tally.faulty.count + tally.unknown_mads.count + tally.fragments + tally.cut;
    assert_eq!((left_out, tally.unreadable_link), (0, 0), "{}", path.display());
    found
}

fn golden(path: &Path) -> Vec<Value> {
    let name = path.file_stem().unwrap().to_str().unwrap();
    let path = path.with_file_name(format!("golden/{name}.jsonl"));
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_field_is_what_an_independent_decoder_sees() {
    for path in captures() {
        let (found, golden) = (messages(&path), golden(&path));
        assert_eq!(found.len(), golden.len(), "{}", path.display());
        for (found, golden) in found.iter().zip(&golden) {
            assert_eq!(found.integrity, Integrity::Ok);
            let fields: Vec<_> = found.message().view().fields().collect();
            let (header, body) = fields.split_at(10);
            compare(header, &golden["header"]);
            compare(body, &golden["fields"]);
        }
    }
}

/// All fields but the reserved ones, which no decoder names.
fn compare(fields: &[(&str, FieldValue<'_>)], golden: &Value) {
    let mut count = 0;
    for (name, value) in fields {
        let seen = match value {
            FieldValue::Reserved { value, .. } => {
                assert_eq!(*value, 0);
                continue;
            }
            FieldValue::Number { value, .. } | FieldValue::Code { value, .. } => (*value).into(),
            other => Value::String(other.to_string()),
        };
        assert_eq!(seen, golden[name], "{name}");
        count += 1;
    }
    assert_eq!(count, golden.as_object().unwrap().len());
}

#[test]
fn every_message_encodes_to_the_octets_it_was_decoded_from() {
    let mut count = 0;
    for found in captures().iter().flat_map(|path| messages(path)) {
        assert_eq!(&encoded_again(&found.message()), found.message().mad());
        count += 1;
    }
    assert_eq!(count, 66);
}

/// The captures hold few values, and no LAP or APR; random ones leave no field out.
#[test]
fn every_field_survives_decoding_and_encoding() {
    let mut random = Random(1);
    for attribute in 0x10..=0x1a {
        for _ in 0..100 {
            let mut mad: Mad = std::array::from_fn(|_| random.next() as u8);
            (mad[0], mad[1], mad[2], mad[3]) = (1, 7, 2, 3);
            (mad[16], mad[17]) = (0, attribute);
            let again = encoded_again(&Message::parse(&mad).unwrap());
            for (before, after) in View::new(&mad).fields().zip(View::new(&again).fields()) {
                match after {
                    (_, FieldValue::Reserved { value, .. }) => assert_eq!(value, 0),
                    _ => assert_eq!(before, after),
                }
            }
        }
    }
}

/// Reads each field through its getter and writes it through its setter.
macro_rules! copy {
    ($Name:ident, $from:ident, $to:ident;
        $($get:ident $set:ident),* $(,)?; $($get_octets:ident $set_octets:ident),*) => {{
        let mut to = $Name::emit(&mut $to, $from.transaction_id());
        $(to.$set($from.$get());)*
        $(to.$set_octets($from.$get_octets());)*
        to.set_private_data($from.private_data()).unwrap();
    }};
}

fn encoded_again(message: &Message<'_>) -> Mad {
    let mut mad = [0xee; 256];
    match message {
        Message::Req(m) => copy!(Req, m, mad;
            local_comm_id set_local_comm_id,
            ece_vendor_id set_ece_vendor_id,
            service_id set_service_id,
            local_ca_guid set_local_ca_guid,
            local_qkey set_local_qkey,
            local_qpn set_local_qpn,
            responder_resources set_responder_resources,
            local_eecn set_local_eecn,
            initiator_depth set_initiator_depth,
            remote_eecn set_remote_eecn,
            remote_cm_response_timeout set_remote_cm_response_timeout,
            transport_service_type set_transport_service_type,
            end_to_end_flow_control set_end_to_end_flow_control,
            starting_psn set_starting_psn,
            local_cm_response_timeout set_local_cm_response_timeout,
            retry_count set_retry_count,
            partition_key set_partition_key,
            path_mtu set_path_mtu,
            rdc_exists set_rdc_exists,
            rnr_retry_count set_rnr_retry_count,
            max_cm_retries set_max_cm_retries,
            srq set_srq,
            extended_transport_type set_extended_transport_type,
            primary_local_lid set_primary_local_lid,
            primary_remote_lid set_primary_remote_lid,
            primary_local_gid set_primary_local_gid,
            primary_remote_gid set_primary_remote_gid,
            primary_flow_label set_primary_flow_label,
            primary_packet_rate set_primary_packet_rate,
            primary_traffic_class set_primary_traffic_class,
            primary_hop_limit set_primary_hop_limit,
            primary_sl set_primary_sl,
            primary_subnet_local set_primary_subnet_local,
            primary_local_ack_timeout set_primary_local_ack_timeout,
            alternate_local_lid set_alternate_local_lid,
            alternate_remote_lid set_alternate_remote_lid,
            alternate_local_gid set_alternate_local_gid,
            alternate_remote_gid set_alternate_remote_gid,
            alternate_flow_label set_alternate_flow_label,
            alternate_packet_rate set_alternate_packet_rate,
            alternate_traffic_class set_alternate_traffic_class,
            alternate_hop_limit set_alternate_hop_limit,
            alternate_sl set_alternate_sl,
            alternate_subnet_local set_alternate_subnet_local,
            alternate_local_ack_timeout set_alternate_local_ack_timeout,
            sap_supported set_sap_supported;
        ),
        Message::Mra(m) => copy!(Mra, m, mad;
            local_comm_id set_local_comm_id,
            remote_comm_id set_remote_comm_id,
            message_mraed set_message_mraed,
            service_timeout set_service_timeout;
        ),
        Message::Rej(m) => copy!(Rej, m, mad;
            local_comm_id set_local_comm_id,
            remote_comm_id set_remote_comm_id,
            message_rejected set_message_rejected,
            reject_info_length set_reject_info_length,
            reason set_reason;
            ari set_ari
        ),
        Message::Rep(m) => copy!(Rep, m, mad;
            local_comm_id set_local_comm_id,
            remote_comm_id set_remote_comm_id,
            local_qkey set_local_qkey,
            local_qpn set_local_qpn,
            ece_vendor_id set_ece_vendor_id,
            local_eecn set_local_eecn,
            starting_psn set_starting_psn,
            responder_resources set_responder_resources,
            initiator_depth set_initiator_depth,
            target_ack_delay set_target_ack_delay,
            failover_accepted set_failover_accepted,
            end_to_end_flow_control set_end_to_end_flow_control,
            rnr_retry_count set_rnr_retry_count,
            srq set_srq,
            local_ca_guid set_local_ca_guid;
        ),
        Message::Rtu(m) => copy!(Rtu, m, mad;
            local_comm_id set_local_comm_id,
            remote_comm_id set_remote_comm_id;
        ),
        Message::Dreq(m) => copy!(Dreq, m, mad;
            local_comm_id set_local_comm_id,
            remote_comm_id set_remote_comm_id,
            remote_qpn set_remote_qpn;
        ),
        Message::Drep(m) => copy!(Drep, m, mad;
            local_comm_id set_local_comm_id,
            remote_comm_id set_remote_comm_id;
        ),
        Message::SidrReq(m) => copy!(SidrReq, m, mad;
            request_id set_request_id,
            partition_key set_partition_key,
            service_id set_service_id;
        ),
        Message::SidrRep(m) => copy!(SidrRep, m, mad;
            request_id set_request_id,
            status set_status,
            additional_info_length set_additional_info_length,
            ece_vendor_id set_ece_vendor_id,
            qpn set_qpn,
            service_id set_service_id,
            qkey set_qkey;
            additional_info set_additional_info
        ),
        Message::Lap(m) => copy!(Lap, m, mad;
            local_comm_id set_local_comm_id,
            remote_comm_id set_remote_comm_id,
            remote_qpn set_remote_qpn,
            remote_cm_response_timeout set_remote_cm_response_timeout,
            alternate_local_lid set_alternate_local_lid,
            alternate_remote_lid set_alternate_remote_lid,
            alternate_local_gid set_alternate_local_gid,
            alternate_remote_gid set_alternate_remote_gid,
            alternate_flow_label set_alternate_flow_label,
            alternate_traffic_class set_alternate_traffic_class,
            alternate_hop_limit set_alternate_hop_limit,
            alternate_packet_rate set_alternate_packet_rate,
            alternate_sl set_alternate_sl,
            alternate_subnet_local set_alternate_subnet_local,
            alternate_local_ack_timeout set_alternate_local_ack_timeout;
        ),
        Message::Apr(m) => copy!(Apr, m, mad;
            local_comm_id set_local_comm_id,
            remote_comm_id set_remote_comm_id,
            additional_info_length set_additional_info_length,
            ap_status set_ap_status;
            additional_info set_additional_info
        ),
    }
    let (from, mut to) = (Header(message.mad()), Header(&mut mad));
    to.set_status(from.status()).set_class_specific(from.class_specific());
    to.set_attribute_modifier(from.attribute_modifier());
    mad
}

/// Reads a file to its end, whatever it holds, and looks at all that is found.
fn exhaust(file: &[u8]) {
    let Ok(messages) = Messages::open(file) else { return };
    for found in messages.flatten() {
        let message = found.message();
        assert!(!message.view().to_string().is_empty());
        assert_eq!(message.view().fields().count(), View::new(message.mad()).fields().count());
    }
}

#[test]
fn no_prefix_of_a_capture_panics() {
    for path in captures() {
        let file = fs::read(path).unwrap();
        // Every prefix of a short file; of a long one enough to be cut at every kind of place.
        let step = if file.len() < 2_600 { 1 } else { 41 };
        (0..file.len()).step_by(step).for_each(|length| exhaust(&file[..length]));
    }
}

#[test]
fn no_damage_to_a_capture_panics() {
    let files: Vec<_> = captures().iter().map(|path| fs::read(path).unwrap()).collect();
    let mut random = Random(2);
    for _ in 0..2_000 {
        let mut file = files[random.below(files.len())].clone();
        for _ in 0..=random.below(8) {
            let at = random.below(file.len());
            file[at] = random.next() as u8;
        }
        exhaust(&file);
    }
}

/// A small generator: equal seeds give equal files.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit
    }
}
