//! Which MAC address an IP address has: what ARP says, else what the frame said that its last message came in, so that an
//! answer goes back the way the question came, through a router too. Who is called is asked for by ARP.
//!
//! A message shows nothing of who sent it, not even that it is from this network. So none takes the place of what ARP says.
//!
//! smoltcp has a table of its own, for the control port. Its sockets send in order: one peer that does not answer ARP would
//! hold up the answers to all others.

use core::net::Ipv4Addr;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol,
    EthernetRepr, Ipv4Cidr,
};

const ENTRIES: usize = 16;
const ETHERNET_LEN: usize = 14;
/// Octets of an ARP frame.
pub(crate) const ARP_LEN: usize = ETHERNET_LEN + 28;

/// Both tables.
pub(crate) struct Neighbours {
    us: Ipv4Cidr,
    by_arp: Table,
    by_message: Table,
}

impl Neighbours {
    /// We and our network.
    pub(crate) const fn new(us: Ipv4Cidr) -> Neighbours {
        Neighbours { us, by_arp: Table::new(), by_message: Table::new() }
    }

    pub(crate) fn find(&self, ip: Ipv4Addr) -> Option<EthernetAddress> {
        self.by_arp.find(ip).or_else(|| self.by_message.find(ip))
    }

    /// Whether another host can have this address (RFC 1122 §3.2.1.3).
    pub(crate) fn is_host(&self, ip: Ipv4Addr) -> bool {
        let nobody = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast();
        !nobody && !ip.is_broadcast() && Some(ip) != self.us.broadcast() && ip != self.us.address()
    }

    /// A message of this host's came in a frame from there.
    pub(crate) fn learn(&mut self, ip: Ipv4Addr, mac: EthernetAddress) {
        if mac.is_unicast() {
            self.by_message.learn(ip, mac);
        }
    }

    /// An ARP frame has come: notes whom it comes from, if it is meant for us or he is known (RFC 826: he may have moved).
    /// Who speaks to us.
    pub(crate) fn hear(&mut self, arp: &[u8]) -> Option<Ipv4Addr> {
        let arp = ArpPacket::new_checked(arp).ok()?;
        let ArpRepr::EthernetIpv4 {
            source_hardware_addr: mac,
            source_protocol_addr: ip,
            target_protocol_addr,
            ..
        } = ArpRepr::parse(&arp).ok()?
        else {
            return None;
        };
        let is_near = self.us.contains_addr(&ip) && self.is_host(ip) && mac.is_unicast();
        if !is_near {
            return None;
        }
        if target_protocol_addr != self.us.address() {
            self.by_arp.renew(ip, mac);
            return None;
        }
        self.by_arp.learn(ip, mac);
        Some(ip)
    }
}

/// A table. The oldest entry makes room for a new one.
struct Table {
    entries: [(Ipv4Addr, EthernetAddress); ENTRIES],
    oldest: usize,
}

impl Table {
    const fn new() -> Table {
        let nobody = (Ipv4Addr::UNSPECIFIED, EthernetAddress([0; 6]));
        Table { entries: [nobody; ENTRIES], oldest: 0 }
    }

    fn find(&self, ip: Ipv4Addr) -> Option<EthernetAddress> {
        self.entries.iter().find(|entry| entry.0 == ip && !ip.is_unspecified()).map(|entry| entry.1)
    }

    /// Whether it was known.
    fn renew(&mut self, ip: Ipv4Addr, mac: EthernetAddress) -> bool {
        let entry = self.entries.iter_mut().find(|entry| entry.0 == ip);
        entry.map(|entry| entry.1 = mac).is_some()
    }

    fn learn(&mut self, ip: Ipv4Addr, mac: EthernetAddress) {
        if self.renew(ip, mac) {
            return;
        }
        if let Some(entry) = self.entries.get_mut(self.oldest) {
            *entry = (ip, mac);
            self.oldest = (self.oldest + 1) % ENTRIES;
        }
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
