//! The chip's Ethernet controller: a FIFO each way, read and written word by word.
//!
//! Read first: LM3S6965 data sheet, chapter "Ethernet Controller". The PHY negotiates by itself out of reset.

use crate::registers::Register;

const BASE: u32 = 0x4004_8000;
/// Raw interrupt status; a one written acknowledges.
const MACRIS: Register = Register::at(BASE);
const MACIM: Register = Register::at(BASE + 0x04);
const MACRCTL: Register = Register::at(BASE + 0x08);
const MACTCTL: Register = Register::at(BASE + 0x0c);
const MACDATA: Register = Register::at(BASE + 0x10);
const MACIA0: Register = Register::at(BASE + 0x14);
const MACIA1: Register = Register::at(BASE + 0x18);
/// How many frames wait in the receive FIFO.
const MACNP: Register = Register::at(BASE + 0x34);
/// Its bit 0 starts a transmission, and clears when that is over.
const MACTR: Register = Register::at(BASE + 0x38);

const RXINT: u32 = 1;
const FOV: u32 = 1 << 3;
const RXER: u32 = 1 << 4;
const ALL: u32 = 0x7f;

const RXEN: u32 = 1;
const BADCRC: u32 = 1 << 3;
const RSTFIFO: u32 = 1 << 4;

const TXEN: u32 = 1;
const PADEN: u32 = 1 << 1;
const CRC: u32 = 1 << 2;
const DUPLEX: u32 = 1 << 4;

/// The interrupt's number.
pub(crate) const IRQ: u8 = 42;

/// In front of a received frame its length, behind it the FCS; both count.
const LENGTH_LEN: usize = 2;
const FCS_LEN: usize = 4;
const HEADER_LEN: usize = 14;
const LONGEST: usize = 1514;
/// The receive FIFO's size: no length in it is greater.
const FIFO: usize = 2048;
/// How often to look whether the last frame has left: for longer than the longest takes at 10 Mbit/s.
const PATIENCE: u32 = 20_000;

/// The controller. There is one.
pub(crate) struct Ethernet {
    pub(crate) overruns: u32,
    pub(crate) damaged: u32,
}

impl Ethernet {
    /// Its clocks must run. Frames with a bad FCS and those for other stations don't get in.
    pub(crate) fn new([a, b, c, d, e, f]: [u8; 6]) -> Ethernet {
        MACIM.write(0);
        MACRIS.write(ALL);
        MACIA0.write(u32::from_le_bytes([a, b, c, d]));
        MACIA1.write(u32::from_le_bytes([e, f, 0, 0]));
        MACTCTL.write(TXEN | PADEN | CRC | DUPLEX);
        reset_fifo();
        MACIM.write(RXINT);
        Ethernet { overruns: 0, damaged: 0 }
    }

    /// Before the processor goes to sleep: whether it may. A frame that comes from now on interrupts.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.acknowledge();
        MACNP.read() == 0
    }

    fn acknowledge(&mut self) {
        let status = MACRIS.read();
        MACRIS.write(status & ALL);
        self.damaged = self.damaged.wrapping_add(u32::from(status & RXER != 0));
        if status & FOV != 0 {
            self.overruns = self.overruns.wrapping_add(1);
            reset_fifo();
        }
    }

    /// The next frame without its FCS; its length. Those too long are skipped.
    pub(crate) fn receive(&mut self, frame: &mut [u8]) -> Option<usize> {
        // In a flood it is never idle.
        if MACRIS.read() & FOV != 0 {
            self.acknowledge();
        }
        while MACNP.read() & 0x3f != 0 {
            let first = MACDATA.read().to_le_bytes();
            let all = usize::from(u16::from_le_bytes([first[0], first[1]]));
            if !(LENGTH_LEN + HEADER_LEN + FCS_LEN..=FIFO).contains(&all) {
                self.damaged = self.damaged.wrapping_add(1);
                reset_fifo(); // nobody knows where the next frame begins
                return None;
            }
            let (length, words) = (all - LENGTH_LEN - FCS_LEN, all.div_ceil(4) - 1);
            if length <= LONGEST.min(frame.len()) {
                drain(words, [first[2], first[3]], frame);
                return Some(length);
            }
            self.damaged = self.damaged.wrapping_add(1);
            drain(words, [0; 2], &mut []);
        }
        None
    }

    /// Waits for the frame before to leave, then sends this one; padding and FCS are the controller's. If that one does
    /// not leave, this one is lost.
    pub(crate) fn send(&mut self, frame: &[u8]) {
        let Some((first, rest)) = frame.split_first_chunk::<2>() else { return };
        if !(HEADER_LEN..=LONGEST).contains(&frame.len()) {
            return;
        }
        if (0..PATIENCE).all(|_| MACTR.read() & 1 != 0) {
            self.overruns = self.overruns.wrapping_add(1);
            return;
        }
        let [l0, l1] = ((frame.len() - HEADER_LEN) as u16).to_le_bytes();
        MACDATA.write(u32::from_le_bytes([l0, l1, first[0], first[1]]));
        let (words, tail) = rest.as_chunks::<4>();
        for word in words {
            MACDATA.write(u32::from_le_bytes(*word));
        }
        if !tail.is_empty() {
            let mut word = [0; 4];
            for (place, octet) in word.iter_mut().zip(tail) {
                *place = *octet;
            }
            MACDATA.write(u32::from_le_bytes(word));
        }
        MACTR.write(1);
    }
}

/// Forgets all frames that wait.
fn reset_fifo() {
    MACRCTL.write(0);
    MACRCTL.write(RSTFIFO);
    MACRCTL.write(RXEN | BADCRC);
}

/// Empties the FIFO of so many words of one frame, whose first two octets are here already. What has no place in `frame`
/// (the FCS) is dropped.
fn drain(words: usize, first: [u8; 2], frame: &mut [u8]) {
    let (head, rest) = frame.split_at_mut(frame.len().min(2));
    head.iter_mut().zip(first).for_each(|(place, octet)| *place = octet);
    let (whole, tail) = rest.as_chunks_mut::<4>();
    let mut whole = whole.iter_mut();
    let mut tail = Some(tail);
    for _ in 0..words {
        let word = MACDATA.read().to_le_bytes();
        if let Some(place) = whole.next() {
            *place = word;
        } else if let Some(tail) = tail.take() {
            tail.iter_mut().zip(word).for_each(|(place, octet)| *place = octet);
        }
    }
}
