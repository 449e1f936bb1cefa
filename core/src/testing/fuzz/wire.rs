//! Octets to fields and back.

use super::Input;
use crate::addr::Gid;
use crate::wire::tables::{TABLES, Table};
use crate::wire::{
    FieldValue, Header, IpCmHeader, Mad, Message, MessageKind, Rej, RejectReason, Rep, Req,
    SidrRep, SidrReq, SidrStatus, View, icrc, packet, roce,
};
use core::net::IpAddr;

/// Any octets through every parser: none may panic, and what parses must print.
pub fn wire_parse(octets: &[u8]) {
    match Message::parse(octets) {
        Ok(message) => {
            assert_eq!(message.mad().as_slice(), octets);
            let _ = format!("{message:?} {}", message.view());
            says_what_it_means(&message);
        }
        Err(error) => drop(error.to_string()),
    }
    if let Some(mad) = octets.first_chunk::<256>() {
        let view = View::new(mad);
        let _ = format!("{view} {view:?} {:?} {}", view.attribute(), view.transaction_id());
        let versions = (view.base_version(), view.class(), view.class_version(), view.method());
        let sound = versions == (1, 7, 2, 3) && (0x10..=0x1a).contains(&view.attribute().0);
        assert_eq!(Message::parse(view.mad()).is_ok(), sound);
        for (_, value) in view.fields() {
            let _ = value.to_string();
        }
    }
    match roce::unframe(octets) {
        Ok(gsi) => {
            let _ = Message::parse(gsi.mad);
            let gid = Gid::from_ip(IpAddr::from([10, 0, 0, 1]));
            let _ = icrc::verify(&icrc::Ip::new(gid, gid), 55410, octets, icrc::crc32);
        }
        Err(fault) => drop(fault.to_string()),
    }
    if let Err(fault) = packet::parse_packet(octets) {
        let _ = fault.to_string();
    }
}

/// Every code has a text; those without a name print as numbers.
fn says_what_it_means(message: &Message<'_>) {
    let (text, code) = match message {
        Message::Rej(rej) => (rej.reason().text(), format!("{:?}", rej.reason())),
        Message::Mra(mra) => (mra.message_mraed().text(), mra.message_mraed().to_string()),
        Message::SidrRep(rep) => (rep.status().text(), rep.status().to_string()),
        Message::Apr(apr) => (apr.ap_status().text(), apr.ap_status().to_string()),
        _ => return,
    };
    assert!(!text.is_empty() && code.starts_with(|first: char| first.is_ascii_digit()));
}

/// What parses is the same after its fields were read and written anew; a message made of any
/// values parses to them. The view loses no bit.
pub fn wire_round_trip(octets: &[u8]) {
    if let Some(mad) = octets.first_chunk() {
        view_is_lossless(mad);
        if let Ok(message) = Message::parse(mad) {
            written_anew(&message);
            parts_agree(&message);
        }
    }
    let mut input = Input::new(octets);
    let mad = generated(&mut input);
    view_is_lossless(&mad);
    let message = Message::parse(&mad).expect("a message of ours");
    written_anew(&message);
    parts_agree(&message);
    private_data_is_cut_off(&mut input, mad);
}

/// A message of any kind, with any values in its fields.
fn generated(input: &mut Input<'_>) -> Mad {
    let table = &TABLES[input.below(TABLES.len())];
    let mut mad = [0xa5; 256];
    (table.emit)(&mut mad, input.bits(64));
    for field in table.handles {
        (field.fill)(&mut mad, &mut |width| input.bits(width));
    }
    assert_eq!(Message::parse(&mad).map(|message| message.attribute()), Ok(table.attribute));
    mad
}

/// Reads every field and writes it into an empty message: all but the reserved bits are there.
fn written_anew(message: &Message<'_>) {
    let theirs = message.mad();
    let mut ours = [0x5a; 256];
    (table_of(message).emit)(&mut ours, message.transaction_id());
    for field in Header::<()>::HANDLES.iter().chain(table_of(message).handles) {
        (field.copy)(theirs, &mut ours);
    }
    for (theirs, ours) in View::new(theirs).fields().zip(View::new(&ours).fields()) {
        match ours.1 {
            FieldValue::Reserved { value, .. } => assert_eq!(value, 0),
            _ => assert_eq!(theirs, ours),
        }
    }
}

/// The fields of a view, put together, are the 256 octets.
fn view_is_lossless(mad: &Mad) {
    let mut bits = Packer::default();
    for (_, value) in View::new(mad).fields() {
        match value {
            FieldValue::Reserved { value, width }
            | FieldValue::Number { value, width }
            | FieldValue::Code { value, width, .. } => bits.push(value, width),
            FieldValue::Gid(gid) => gid.0.iter().for_each(|&o| bits.push(o.into(), 8)),
            FieldValue::Octets(field) => field.iter().for_each(|&o| bits.push(o.into(), 8)),
        }
    }
    assert_eq!(bits.octets, mad);
}

/// The getters and setters that are no row of a table.
fn parts_agree(message: &Message<'_>) {
    let mut again = *message.mad();
    match message {
        Message::Req(req) => {
            Req(&mut again).set_ece(req.ece());
            assert_eq!(again, *message.mad());
            if let Ok(header) = req.ip_cm() {
                Req(&mut again).set_ip_cm(&header).set_consumer_data(req.consumer_data()).unwrap();
                assert_eq!(Req(&again).ip_cm(), Ok(header));
                assert_eq!(Req(&again).consumer_data(), req.consumer_data());
                assert_eq!(IpCmHeader::parse(&header.emit()), Ok(header));
            }
        }
        Message::SidrReq(req) => match req.ip_cm() {
            Ok(header) => {
                let mut to = SidrReq(&mut again);
                to.set_ip_cm(&header).set_consumer_data(req.consumer_data()).unwrap();
                assert_eq!(SidrReq(&again).ip_cm(), Ok(header));
                assert_eq!(SidrReq(&again).consumer_data(), req.consumer_data());
            }
            Err(error) => drop(error.to_string()),
        },
        Message::Rep(rep) => {
            Rep(&mut again).set_ece(rep.ece()).set_ece_vendor_id(rep.ece().vendor_id);
            assert_eq!(again, *message.mad());
        }
        Message::SidrRep(rep) => {
            SidrRep(&mut again).set_ece(rep.ece()).set_ece_vendor_id(rep.ece().vendor_id);
            assert_eq!(again, *message.mad());
            assert!(rep.additional_info().starts_with(rep.information()));
            named(rep.status().name(), rep.status(), SidrStatus::from_name);
        }
        Message::Rej(rej) => {
            Rej(&mut again).set_additional_info(rej.additional_info());
            assert_eq!(Rej(&again).additional_info(), rej.additional_info());
            named(rej.reason().name(), rej.reason(), RejectReason::from_name);
            named(rej.message_rejected().name(), rej.message_rejected(), MessageKind::from_name);
        }
        _ => {}
    }
}

/// Private data of any length: what fits is there with zeros behind it, what does not changes
/// nothing.
fn private_data_is_cut_off(input: &mut Input<'_>, before: Mad) {
    let message = Message::parse(&before).expect("it parsed before");
    let (limit, at) = (table_of(&message).private_data, 256 - table_of(&message).private_data);
    let data = [input.octet() | 1; 256];
    let data = &data[..input.below(256)];
    let mut after = before;
    let done = (table_of(&message).set_private_data)(&mut after, data);
    assert_eq!(done.is_ok(), data.len() <= limit);
    if done.is_err() {
        return assert_eq!(after, before);
    }
    assert_eq!(after[..at], before[..at]);
    assert_eq!(after[at..at + data.len()], *data);
    assert!(after[at + data.len()..].iter().all(|&octet| octet == 0));
}

/// A name that a code has means this code.
fn named<T: Copy + PartialEq + core::fmt::Debug>(
    name: Option<&'static str>,
    code: T,
    from_name: fn(&str) -> Option<T>,
) {
    if let Some(name) = name {
        assert_eq!(from_name(name), Some(code));
    }
}

fn table_of(message: &Message<'_>) -> &'static Table {
    let found = TABLES.iter().find(|table| table.attribute == message.attribute());
    found.expect("every message has a table")
}

/// Puts bits together again.
#[derive(Default)]
struct Packer {
    octets: Vec<u8>,
    /// Bits of the last octet that are in use; 0: all.
    used: u32,
}

impl Packer {
    fn push(&mut self, value: u64, width: u32) {
        for bit in (0..width).rev() {
            if self.used == 0 {
                self.octets.push(0);
            }
            let last = self.octets.last_mut().expect("one was pushed");
            *last |= (value >> bit & 1) as u8 * (0x80 >> self.used);
            self.used = (self.used + 1) % 8;
        }
    }
}
