//! Which MAC address an IP address has. A peer's is learned from the frame that its message came in, so that an answer
//! goes back the way the question came, through a router too. Only who is called first is asked for, by ARP.
//!
//! smoltcp has a table of its own, for the control port. Its sockets send in order: one peer that does not answer ARP would
//! hold up the answers to all others.

use core::net::Ipv4Addr;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol,
    EthernetRepr,
};

const ENTRIES: usize = 16;
const ETHERNET_LEN: usize = 14;
/// Octets of an ARP frame.
pub(crate) const ARP_LEN: usize = ETHERNET_LEN + 28;

/// The table. The oldest entry makes room for a new one.
pub(crate) struct Neighbours {
    entries: [(Ipv4Addr, EthernetAddress); ENTRIES],
    oldest: usize,
}

impl Neighbours {
    pub(crate) const fn new() -> Neighbours {
        let nobody = (Ipv4Addr::UNSPECIFIED, EthernetAddress([0; 6]));
        Neighbours { entries: [nobody; ENTRIES], oldest: 0 }
    }

    pub(crate) fn find(&self, ip: Ipv4Addr) -> Option<EthernetAddress> {
        self.entries.iter().find(|entry| entry.0 == ip && !ip.is_unspecified()).map(|entry| entry.1)
    }

    pub(crate) fn learn(&mut self, ip: Ipv4Addr, mac: EthernetAddress) {
        if ip.is_unspecified() || !mac.is_unicast() {
            return;
        }
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.0 == ip) {
            entry.1 = mac;
        } else if let Some(entry) = self.entries.get_mut(self.oldest) {
            *entry = (ip, mac);
            self.oldest = (self.oldest + 1) % ENTRIES;
        }
    }

    /// An ARP frame has come: notes whom it comes from, if it is meant for us.
    pub(crate) fn hear(&mut self, us: Ipv4Addr, arp: &[u8]) -> Option<Ipv4Addr> {
        let arp = ArpPacket::new_checked(arp).ok()?;
        let ArpRepr::EthernetIpv4 {
            source_hardware_addr,
            source_protocol_addr,
            target_protocol_addr,
            ..
        } = ArpRepr::parse(&arp).ok()?
        else {
            return None;
        };
        if target_protocol_addr != us {
            return None;
        }
        self.learn(source_protocol_addr, source_hardware_addr);
        Some(source_protocol_addr)
    }
}

/// The frame that asks who has an address.
pub(crate) fn question(us: (Ipv4Addr, EthernetAddress), whose: Ipv4Addr) -> [u8; ARP_LEN] {
    let mut octets = [0; ARP_LEN];
    let mut frame = EthernetFrame::new_unchecked(&mut octets[..]);
    EthernetRepr {
        src_addr: us.1,
        dst_addr: EthernetAddress::BROADCAST,
        ethertype: EthernetProtocol::Arp,
    }
    .emit(&mut frame);
    ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: us.1,
        source_protocol_addr: us.0,
        target_hardware_addr: EthernetAddress::BROADCAST,
        target_protocol_addr: whose,
    }
    .emit(&mut ArpPacket::new_unchecked(frame.payload_mut()));
    octets
}
