//! A passive responder for a microcontroller: IP packets in, connections accepted and ended, IP
//! packets out, each ICRC checked and made. The network interface is a pair of mailboxes.
//!
//! It is linked to be weighed, not to be run; but a firmware's loop looks like this.

#![no_std]
#![no_main]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod mailbox;

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use nanocm_core::port::map_words;
use nanocm_core::wire::icrc::{Integrity, crc32, verify};
use nanocm_core::wire::packet::{IPV6_PACKET_LEN, frame_packet, parse_packet};
use nanocm_core::wire::roce::{QP1_SOURCE_PORT, unframe};
use nanocm_core::wire::{MAD_LEN, Mad};
use nanocm_core::{
    Cm, Config, ConnParam, Event, EventKind, Gid, Instant, Path, PortEvent, PortSpace, ScopedIp,
    Storage,
};

/// 16 identifiers and connections, 1,024 ports to choose from.
type Memory = Storage<16, 16, 8, 32, 2, { map_words(1024) }>;

/// All zero bits: it lands in .bss and costs no flash.
static mut MEMORY: Memory = Memory::new();

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const PORT: u16 = 4420;
const CA_GUID: u64 = 0x0200_5eff_fe00_0001;

/// Entered once, out of reset.
#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    let memory = &raw mut MEMORY;
    // SAFETY: this is the only reference, taken once.
    let memory = unsafe { &mut *memory };
    let mut config = Config::new(mailbox::entropy());
    config.port_range = (49_152, 50_175);
    if let Ok(mut cm) = Cm::new(memory.parts(), config)
        && listen(&mut cm).is_some()
    {
        loop {
            turn(&mut cm);
        }
    }
    halt()
}

fn listen(cm: &mut Cm<'_>) -> Option<()> {
    let address = ScopedIp { gid: Gid::from_ip(ADDRESS), scope: 0 };
    let _ = cm.handle_port_event(now(), PortEvent::GidAdded { address, ca_guid: CA_GUID });
    let id = cm.create_id(PortSpace::Tcp, 0).ok()?;
    cm.bind(id, SocketAddr::new(ADDRESS, PORT)).ok()?;
    cm.listen(id, 0).ok()
}

/// What came in, what is due, what goes out. Apart, for its stack to be measured.
#[inline(never)]
fn turn(cm: &mut Cm<'_>) {
    let now = now();
    let mut packet = [0; IPV6_PACKET_LEN];
    if let Some(packet) = mailbox::receive(&mut packet) {
        receive(cm, now, packet);
    }
    if cm.poll_at().is_some_and(|at| at <= now) {
        let _ = cm.handle_timeout(now, 1);
    }
    while let Some(event) = cm.poll_event() {
        answer(cm, now, event);
    }
    let mut mad: Mad = [0; MAD_LEN];
    while let Some(transmit) = cm.poll_transmit(now, &mut mad) {
        if let Path::Roce(path) = &transmit.path {
            mailbox::send(frame_packet(path, 0, QP1_SOURCE_PORT, 0, &mad, crc32, &mut packet));
        }
    }
}

fn receive(cm: &mut Cm<'_>, now: Instant, packet: &[u8]) {
    let Ok(packet) = parse_packet(packet) else { return };
    if verify(&packet.ip, packet.udp_source_port, packet.udp_payload, crc32) != Integrity::Ok {
        let _ = cm.handle_bad_icrc();
        return;
    }
    let _ = match unframe(packet.udp_payload) {
        Ok(gsi) => cm.handle_datagram(now, &Path::Roce(packet.path()), gsi.mad),
        Err(fault) => cm.handle_frame_fault(fault),
    };
}

/// Accepts whoever asks; ends what the peer ends.
fn answer(cm: &mut Cm<'_>, now: Instant, event: Event) {
    let _ = match event.kind {
        EventKind::ConnectRequest { .. } => {
            cm.accept(now, event.id, &ConnParam::new(mailbox::new_queue_pair()))
        }
        EventKind::Disconnected(_) => cm.disconnect(now, event.id, &[]),
        EventKind::Established => Ok(()),
        _ => {
            let _ = cm.destroy(now, event.id);
            Ok(())
        }
    };
}

fn now() -> Instant {
    Instant::from_millis(u64::from(mailbox::millis()))
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    halt()
}

fn halt() -> ! {
    loop {
        core::hint::spin_loop();
    }
}
