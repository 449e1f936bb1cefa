//! Frames: what is checked of each that comes in, and how wrong ones are made.
//!
//! Read first: Annex A17; IBTA 9 (BTH, DETH), 13 (MAD header).

use nanocm_core::wire::icrc::Integrity;
use nanocm_core::wire::roce::PAYLOAD_LEN;
use nanocm_core::wire::{Header, MAD_LEN, Mad};

use super::peer::{Heard, MAD_AT};
use super::talk::Talk;
use super::verdict::{Deviation, Stop, reserved};

impl Talk<'_> {
    /// The MAD of a datagram whose frame is as it should be.
    pub(super) fn check(&self, heard: &Heard) -> Result<Mad, Stop> {
        let p = &heard.payload;
        let not = |at: &str, name: &str, expected: String, seen: String| {
            Err(Deviation::stop(format!("UDP payload octet {at}, {name}"), expected, seen))
        };
        if p.len() != PAYLOAD_LEN {
            let expected = format!("{PAYLOAD_LEN} octets");
            return Err(Deviation::stop("UDP length", expected, format!("{} octets", p.len())));
        }
        let qpn = |at: usize| u32::from_be_bytes([0, p[at], p[at + 1], p[at + 2]]);
        let pkey = u16::from_be_bytes([p[2], p[3]]);
        let qkey = u32::from_be_bytes([p[12], p[13], p[14], p[15]]);
        if p[0] != 0x64 {
            return not("0", "BTH opcode", "0x64".into(), format!("{:#04x}", p[0]));
        }
        if p[1] & 0x3f != 0 {
            let expected = "no padding, transport version 0";
            return not("1", "BTH", expected.into(), format!("{:#04x}", p[1]));
        }
        if pkey & 0x7fff != 0x7fff {
            return not("2", "BTH P_Key", "0xffff or 0x7fff".into(), format!("{pkey:#06x}"));
        }
        if qpn(5) != 1 && qpn(5) != self.our_qp {
            return not("5", "BTH destination QPN", "1".into(), format!("{:#x}", qpn(5)));
        }
        if qkey != 0x8001_0000 {
            return not("12", "DETH Q_Key", "0x80010000".into(), format!("{qkey:#010x}"));
        }
        if qpn(17) != 1 {
            return not("17", "DETH source QPN", "1".into(), format!("{:#x}", qpn(17)));
        }
        if heard.integrity == Integrity::Bad {
            let stored = p[PAYLOAD_LEN - 4..].iter().map(|o| format!("{o:02x}")).collect();
            return not("276", "ICRC", "the frame's".into(), stored);
        }
        let Some(mad) = heard.mad() else {
            return Err(Deviation::stop("UDP length", "a MAD", "none"));
        };
        let header = Header(mad);
        let numbers = [
            ("base_version", 1, header.base_version()),
            ("class", 7, header.class()),
            ("class_version", 2, header.class_version()),
        ];
        for (at, (name, expected, seen)) in numbers.into_iter().enumerate() {
            if seen != expected {
                let (expected, seen) = (expected.to_string(), seen.to_string());
                return Err(Deviation::stop(format!("MAD octet {at}, {name}"), expected, seen));
            }
        }
        if !self.any_method && (header.method(), header.status()) != (3, 0) {
            let seen = format!("method {:#04x}, status {:#06x}", header.method(), header.status());
            let expected = "method 0x03 (Send), status 0";
            return Err(Deviation::stop("MAD octet 3, method and status", expected, seen));
        }
        reserved(mad)?;
        Ok(*mad)
    }

    /// A frame around a MAD whose octets before the ICRC, from the BTH on, are changed first.
    pub(super) fn odd_frame(&self, mad: &Mad, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut payload = self.peer.frame(mad);
        payload.truncate(MAD_AT + MAD_LEN);
        change(&mut payload);
        self.peer.seal(&mut payload);
        payload
    }

    /// A frame around a MAD whose ICRC is changed.
    pub(super) fn spoiled_frame(&self, mad: &Mad, spoil: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut payload = self.peer.frame(mad);
        spoil(&mut payload[PAYLOAD_LEN - 4..]);
        payload
    }
}
