//! The hardware, as little of it as it takes: two mailboxes, a clock, random numbers, queue pairs.
//! All of this program's device access is here.

const RECEIVED_LENGTH: *const u32 = 0x4000_0000 as _;
const RECEIVED: *const u8 = 0x4000_1000 as _;
const SENT_LENGTH: *mut u32 = 0x4000_2000 as _;
const SENT: *mut u8 = 0x4000_3000 as _;
const CLOCK: *const u32 = 0x4000_4000 as _;
const RANDOM: *const u32 = 0x4000_4004 as _;
const NEW_QPN: *const u32 = 0x4000_4008 as _;

/// The packet in the mailbox, if there is one.
pub(crate) fn receive(packet: &mut [u8]) -> Option<&[u8]> {
    let length = read(RECEIVED_LENGTH) as usize;
    if length == 0 {
        return None;
    }
    let packet = packet.get_mut(..length)?;
    for (i, octet) in packet.iter_mut().enumerate() {
        // SAFETY: device memory, as long as the length register says.
        *octet = unsafe { RECEIVED.add(i).read_volatile() };
    }
    Some(packet)
}

/// Puts a packet into the mailbox.
pub(crate) fn send(packet: &[u8]) {
    for (i, octet) in packet.iter().enumerate() {
        // SAFETY: device memory, 4 KiB of it.
        unsafe { SENT.add(i).write_volatile(*octet) };
    }
    // SAFETY: a device register.
    unsafe { SENT_LENGTH.write_volatile(packet.len() as u32) };
}

pub(crate) fn millis() -> u32 {
    read(CLOCK)
}

/// A number that never repeats, over resets too.
pub(crate) fn entropy() -> u64 {
    u64::from(read(RANDOM)) << 32 | u64::from(read(RANDOM))
}

/// A queue pair that is ready to be connected.
pub(crate) fn new_queue_pair() -> u32 {
    read(NEW_QPN)
}

fn read(register: *const u32) -> u32 {
    // SAFETY: a device register.
    unsafe { register.read_volatile() }
}
