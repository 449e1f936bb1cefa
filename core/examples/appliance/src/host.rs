//! What every host on an Ethernet does: ARP, ping, ICMP, and one UDP port, the control port. All of it is smoltcp's.
//!
//! CM messages don't come here: see `roce.rs`.

use crate::board::Board;
use nanocm_core::Instant;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet, SocketStorage};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::udp;
use smoltcp::wire::{EthernetAddress, IpCidr, Ipv4Cidr};

/// The UDP port for commands.
pub(crate) const CONTROL_PORT: u16 = 7470;
/// The longest command, and the longest report.
const COMMAND: usize = 64;
const REPORT: usize = 1400;

/// Memory for the control port.
pub(crate) struct HostMemory {
    command: [u8; COMMAND],
    report: [u8; REPORT],
}

impl HostMemory {
    pub(crate) const fn new() -> HostMemory {
        HostMemory { command: [0; COMMAND], report: [0; REPORT] }
    }
}

/// Memory of smoltcp's that is not all zero bits when new: apart, or it would all be in `.data`, that is in flash.
pub(crate) struct Slots<'m> {
    sockets: [SocketStorage<'m>; 1],
    command: [udp::PacketMetadata; 1],
    report: [udp::PacketMetadata; 1],
}

impl Slots<'_> {
    pub(crate) const fn new() -> Self {
        Slots {
            sockets: [SocketStorage::EMPTY],
            command: [udp::PacketMetadata::EMPTY],
            report: [udp::PacketMetadata::EMPTY],
        }
    }
}

/// smoltcp with its one socket.
pub(crate) struct Host<'m> {
    interface: Interface,
    sockets: SocketSet<'m>,
    control: SocketHandle,
}

impl<'m> Host<'m> {
    pub(crate) fn new<B: Board>(
        memory: &'m mut HostMemory,
        slots: &'m mut Slots<'m>,
        address: Ipv4Cidr,
        mac: EthernetAddress,
        mut port: Port<'_, B>,
    ) -> Host<'m> {
        let mut interface =
            Interface::new(Config::new(mac.into()), &mut port, smoltcp::time::Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            let _ = addresses.push(IpCidr::Ipv4(address));
        });
        let Slots { sockets, command, report } = slots;
        let mut socket = udp::Socket::new(
            udp::PacketBuffer::new(&mut command[..], &mut memory.command[..]),
            udp::PacketBuffer::new(&mut report[..], &mut memory.report[..]),
        );
        let _ = socket.bind(CONTROL_PORT);
        let mut sockets = SocketSet::new(&mut sockets[..]);
        let control = sockets.add(socket);
        Host { interface, sockets, control }
    }

    /// A frame that is not for the CM: smoltcp answers what it can by itself, and `obey` has the command in it, if
    /// there is one, and writes the report.
    pub(crate) fn take<B: Board>(
        &mut self,
        now: Instant,
        mut port: Port<'_, B>,
        obey: impl FnOnce(&[u8], &mut [u8], &mut B) -> usize,
    ) {
        let time = smoltcp_time(now);
        self.interface.poll_ingress_single(time, &mut port, &mut self.sockets);
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.control);
        // Another appliance's answer is no command, or two of them would answer each other for ever.
        if let Ok((command, from)) = socket.recv()
            && from.endpoint.port != CONTROL_PORT
        {
            let mut copy = [0; COMMAND];
            let length = command.len().min(COMMAND);
            if let (Some(copy), Some(command)) = (copy.get_mut(..length), command.get(..length)) {
                copy.copy_from_slice(command);
            }
            // Empties the buffers: the last report has gone, or waits for a neighbour that does not answer ARP. (And
            // `send_with` wants all of its room in one piece, which smoltcp 0.14 has only in a new buffer.)
            socket.close();
            let _ = socket.bind(CONTROL_PORT);
            let command = copy.get(..length).unwrap_or_default();
            let _ =
                socket.send_with(REPORT, from.endpoint, |report| obey(command, report, port.board));
        }
        self.send(now, port);
    }

    /// Sends what waits, if its time has come.
    pub(crate) fn send<B: Board>(&mut self, now: Instant, mut port: Port<'_, B>) {
        self.interface.poll_egress(smoltcp_time(now), &mut port, &mut self.sockets);
    }

    /// When to call [`send`](Self::send) if nothing happens before.
    pub(crate) fn poll_at(&mut self, now: Instant) -> Option<Instant> {
        let at = self.interface.poll_at(smoltcp_time(now), &self.sockets)?;
        Some(Instant::from_millis(at.total_millis().max(0) as u64))
    }
}

fn smoltcp_time(now: Instant) -> smoltcp::time::Instant {
    smoltcp::time::Instant::from_micros((now.as_nanos() / 1000) as i64)
}

/// The board as smoltcp sees it: with the one frame that it shall look at, and a place for what it answers.
pub(crate) struct Port<'a, B> {
    pub(crate) board: &'a mut B,
    pub(crate) frame: Option<&'a [u8]>,
    pub(crate) out: &'a mut [u8],
}

impl<'a, B> Port<'a, B> {
    /// Without a frame.
    pub(crate) fn idle(board: &'a mut B, out: &'a mut [u8]) -> Port<'a, B> {
        Port { board, frame: None, out }
    }
}

impl<B: Board> Device for Port<'_, B> {
    type RxToken<'a>
        = Received<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Sender<'a, B>
    where
        Self: 'a;

    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(Received<'_>, Sender<'_, B>)> {
        let frame = self.frame.take()?;
        Some((Received(frame), Sender { board: self.board, out: self.out }))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Sender<'_, B>> {
        Some(Sender { board: self.board, out: self.out })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.out.len();
        capabilities
    }
}

pub(crate) struct Received<'a>(&'a [u8]);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

pub(crate) struct Sender<'a, B> {
    board: &'a mut B,
    out: &'a mut [u8],
}

impl<B: Board> TxToken for Sender<'_, B> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        // smoltcp keeps to `max_transmission_unit`.
        let frame = &mut self.out[..length];
        let result = f(frame);
        self.board.send(frame);
        result
    }
}
