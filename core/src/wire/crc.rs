//! CRC-32 (IEEE 802.3) with one table of 1 KiB.
//!
//! Small enough for a firmware, and not slow: most of a CM message is unused private data, and a run of
//! zeros at the end costs one multiplication instead of a table look-up per octet. Where 16 KiB of tables
//! are nothing, the `crc32fast` crate is faster still.
//!
//! The register holds a polynomial of degree 31 with its highest power in the lowest bit, because Ethernet
//! sends the lowest bit first.

/// CRC-32 (IEEE 802.3) of the pieces put together.
pub fn crc32(pieces: &[&[u8]]) -> u32 {
    let Some((last, pieces)) = pieces.split_last() else { return 0 };
    let (last, power) = split_zeros(last);
    let crc = pieces.iter().fold(u32::MAX, |crc, piece| update(crc, piece));
    !times(update(crc, last), power)
}

/// Takes octets into the register.
fn update(mut crc: u32, octets: &[u8]) -> u32 {
    let (blocks, rest) = octets.as_chunks::<BLOCK>();
    for block in blocks {
        for word in block.as_chunks::<4>().0 {
            crc = shift_32(crc ^ u32::from_le_bytes(*word));
        }
    }
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        crc = shift_32(crc ^ u32::from_le_bytes(*word));
    }
    for octet in rest {
        crc = shift_8(crc ^ u32::from(*octet));
    }
    crc
}

/// Splits whole blocks of zeros from the end; says what they multiply the register with.
fn split_zeros(octets: &[u8]) -> (&[u8], u32) {
    let mut rest = octets;
    let mut power = ONE;
    for next in &POWERS {
        match rest.split_last_chunk::<BLOCK>() {
            Some((head, block)) if u128::from_ne_bytes(*block) == 0 => rest = head,
            _ => break,
        }
        power = *next;
    }
    (rest, power)
}

/// Octets in a turn of the loops.
const BLOCK: usize = 16;

/// The polynomial 1.
const ONE: u32 = 1 << 31;

/// What one, two … blocks of zeros multiply the register with: x¹²⁸ and its powers. Enough for a MAD.
static POWERS: [u32; 17] = {
    let mut powers = [0; 17];
    let mut power = ONE;
    let mut n = 0;
    while n < powers.len() {
        let mut words = 0;
        while words < BLOCK / 4 {
            power = shift_32(power);
            words += 1;
        }
        powers[n] = power;
        n += 1;
    }
    powers
};

/// The product of two registers, modulo the polynomial.
const fn times(a: u32, b: u32) -> u32 {
    // `a` times each polynomial of degree 3 or less, so that `b` goes by four bits at a time.
    let mut multiples = [0, a as u64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut i = 2;
    while i < 16 {
        multiples[i] = multiples[i / 2] << 1;
        multiples[i + 1] = multiples[i] ^ a as u64;
        i += 2;
    }
    let mut product = 0;
    let mut shift = 32;
    while shift > 0 {
        shift -= 4;
        product = product << 4 ^ multiples[(b >> shift) as usize & 15];
    }
    // 63 coefficients, the highest power lowest. The upper 32 powers are in the lower half.
    product <<= 1;
    (product >> 32) as u32 ^ shift_32(product as u32)
}

/// Multiplies the register by x³².
#[inline(always)]
pub(super) const fn shift_32(crc: u32) -> u32 {
    shift_8(shift_8(shift_8(shift_8(crc))))
}

/// Multiplies the register by x⁸.
#[inline(always)]
pub(super) const fn shift_8(crc: u32) -> u32 {
    TABLE[crc as u8 as usize] ^ crc >> 8
}

/// Each octet (as coefficients of x³¹ and below) times x⁸.
static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < table.len() {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// x³² + x²⁶ + x²³ + … + 1 without its first term.
const POLYNOMIAL: u32 = 0xedb8_8320;
