//! Peers that are not there: the messages they would send, with numbers of our choice.

use nanocm_core::addr::IbPath;
use nanocm_core::wire::{
    ApStatus, Apr, Drep, Dreq, IpCmHeader, Lap, MAD_LEN, Mad, MessageKind, Mra, Rej, RejectReason,
    Rep, Req, Rtu, SidrRep, SidrReq, SidrStatus,
};
use nanocm_core::{Gid, Path, PortSpace, RocePath, ServiceId};
use std::net::{IpAddr, Ipv4Addr};

/// One end of a connection, the other side's.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    /// Its address.
    pub(crate) ip: IpAddr,
    pub(crate) ca_guid: u64,
    pub(crate) comm_id: u32,
    pub(crate) qpn: u32,
}

/// Which numbers peers have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peers {
    /// All different hosts.
    Many,
    /// One host: its GUID and address, other communication IDs and queue pairs.
    OneHost,
    /// Hosts that all say GUID 0, communication ID 1 and queue pair 17.
    Alike,
}

impl Peers {
    pub(crate) const ALL: [Peers; 3] = [Peers::Many, Peers::OneHost, Peers::Alike];

    /// The peer with this number.
    pub(crate) fn peer(self, number: u32) -> Peer {
        let ip = |bits| IpAddr::V4(Ipv4Addr::from_bits(bits));
        let own = Peer {
            ip: ip(0x0b00_0000 + number),
            ca_guid: 0x0200_0000_0000_0000 | u64::from(number),
            comm_id: number + 1,
            qpn: number & 0xff_ffff,
        };
        match self {
            Peers::Many => own,
            Peers::OneHost => Peer { ip: ip(0x0b00_0001), ca_guid: 0x0200_1234_5678_9abc, ..own },
            Peers::Alike => Peer { ca_guid: 0, comm_id: 1, qpn: 17, ..own },
        }
    }
}

impl Peer {
    /// The way its messages to `local` come, and ours go.
    pub(crate) fn path(&self, local: IpAddr) -> Path {
        Path::Roce(RocePath::new(local.into(), self.ip.into()))
    }

    /// The same over InfiniBand.
    pub(crate) fn infiniband_path(&self, local: IpAddr) -> Path {
        let mut path = IbPath::default();
        (path.local, path.remote) = (local.into(), self.ip.into());
        (path.lid, path.grh) = (3, true);
        Path::Ib(path)
    }

    /// A request to a TCP port of `local`.
    pub(crate) fn req(&self, local: IpAddr, port: u16) -> Mad {
        let mut mad = [0; MAD_LEN];
        let mut req = Req::emit(&mut mad, u64::from(self.comm_id));
        let (source, destination) = (Gid::from_ip(self.ip), Gid::from_ip(local));
        req.set_local_comm_id(self.comm_id)
            .set_service_id(ServiceId::new(PortSpace::Tcp, port))
            .set_local_ca_guid(self.ca_guid)
            .set_local_qpn(self.qpn)
            .set_starting_psn(self.qpn)
            .set_path_mtu(3)
            .set_max_cm_retries(15)
            .set_partition_key(0xffff)
            .set_primary_local_gid(source)
            .set_primary_remote_gid(destination)
            .set_primary_hop_limit(64)
            .set_primary_local_ack_timeout(17);
        req.set_ip_cm(&IpCmHeader { source_port: 40_000, source, destination });
        mad
    }

    /// A request to a datagram service of `local`.
    pub(crate) fn sidr_req(&self, local: IpAddr, port: u16) -> Mad {
        let mut mad = [0; MAD_LEN];
        let (source, destination) = (Gid::from_ip(self.ip), Gid::from_ip(local));
        SidrReq::emit(&mut mad, u64::from(self.comm_id))
            .set_request_id(self.comm_id)
            .set_partition_key(0xffff)
            .set_service_id(ServiceId::new(PortSpace::Udp, port))
            .set_ip_cm(&IpCmHeader { source_port: 40_000, source, destination });
        mad
    }

    /// The answer to our SIDR_REQ.
    pub(crate) fn sidr_rep(&self, own_number: u32, port: u16) -> Mad {
        let mut mad = [0; MAD_LEN];
        SidrRep::emit(&mut mad, u64::from(own_number))
            .set_request_id(own_number)
            .set_status(SidrStatus::VALID)
            .set_service_id(ServiceId::new(PortSpace::Udp, port))
            .set_qpn(self.qpn)
            .set_qkey(0x0123_4567);
        mad
    }

    /// Asks for another path.
    pub(crate) fn lap(&self, own_comm_id: u32, own_qpn: u32) -> Mad {
        let mut mad = [0; MAD_LEN];
        Lap::emit(&mut mad, 6)
            .set_local_comm_id(self.comm_id)
            .set_remote_comm_id(own_comm_id)
            .set_remote_qpn(own_qpn);
        mad
    }

    /// Answers a question that nobody asked.
    pub(crate) fn apr(&self, own_comm_id: u32) -> Mad {
        let mut mad = [0; MAD_LEN];
        Apr::emit(&mut mad, 7)
            .set_local_comm_id(self.comm_id)
            .set_remote_comm_id(own_comm_id)
            .set_ap_status(ApStatus::UNSUPPORTED);
        mad
    }

    /// The answer to our REQ.
    pub(crate) fn rep(&self, own_comm_id: u32) -> Mad {
        let mut mad = [0; MAD_LEN];
        let mut rep = Rep::emit(&mut mad, u64::from(own_comm_id));
        rep.set_local_comm_id(self.comm_id)
            .set_remote_comm_id(own_comm_id)
            .set_local_qpn(self.qpn)
            .set_starting_psn(self.qpn)
            .set_local_ca_guid(self.ca_guid);
        mad
    }

    /// "Your message is here, the answer takes long": an hour or two.
    pub(crate) fn mra(&self, own_comm_id: u32, of: MessageKind) -> Mad {
        let mut mad = [0; MAD_LEN];
        let mut mra = Mra::emit(&mut mad, 5);
        mra.set_local_comm_id(self.comm_id)
            .set_remote_comm_id(own_comm_id)
            .set_message_mraed(of)
            .set_service_timeout(30);
        mad
    }

    pub(crate) fn rtu(&self, own_comm_id: u32) -> Mad {
        let mut mad = [0; MAD_LEN];
        let mut rtu = Rtu::emit(&mut mad, 1);
        rtu.set_local_comm_id(self.comm_id).set_remote_comm_id(own_comm_id);
        mad
    }

    pub(crate) fn dreq(&self, own_comm_id: u32, own_qpn: u32) -> Mad {
        let mut mad = [0; MAD_LEN];
        let mut dreq = Dreq::emit(&mut mad, 2);
        dreq.set_local_comm_id(self.comm_id)
            .set_remote_comm_id(own_comm_id)
            .set_remote_qpn(own_qpn);
        mad
    }

    pub(crate) fn drep(&self, own_comm_id: u32) -> Mad {
        let mut mad = [0; MAD_LEN];
        let mut drep = Drep::emit(&mut mad, 3);
        drep.set_local_comm_id(self.comm_id).set_remote_comm_id(own_comm_id);
        mad
    }

    /// The application's refusal of our REQ or REP.
    pub(crate) fn rej(&self, own_comm_id: u32, of: MessageKind) -> Mad {
        let mut mad = [0; MAD_LEN];
        let mut rej = Rej::emit(&mut mad, 4);
        rej.set_local_comm_id(self.comm_id)
            .set_remote_comm_id(own_comm_id)
            .set_message_rejected(of)
            .set_reason(RejectReason::CONSUMER);
        mad
    }

    /// The peer gives up a REQ whose REP it never saw: named by its own number and GUID.
    pub(crate) fn rej_timeout(&self) -> Mad {
        let mut mad = [0; MAD_LEN];
        let mut rej = Rej::emit(&mut mad, u64::from(self.comm_id));
        rej.set_local_comm_id(self.comm_id)
            .set_message_rejected(MessageKind::OTHER)
            .set_reason(RejectReason::TIMEOUT)
            .set_additional_info(&self.ca_guid.to_be_bytes());
        mad
    }
}
