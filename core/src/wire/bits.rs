//! Bits and octets at constant places.
//!
//! Every position is a const generic, checked while compiling: what is left at run time is a load (or a
//! store), a shift and a mask, without a branch. Bits are counted from the most significant one of octet
//! 0, as the specification does.

use super::mad::{MAD_LEN, Mad};

/// The bits of a field: the smallest big-endian window that holds it, shifted down. All but the load
/// is known at compile time.
#[inline(always)]
pub(super) const fn get<const POSITION: usize, const WIDTH: usize>(mad: &Mad) -> u64 {
    const { assert!(fits_window(POSITION, WIDTH), "no window of 64 bits holds the field") };
    let (at, octets) = window(POSITION, WIDTH);
    let word = match octets {
        1 => mad[at] as u64,
        2 => u16::from_be_bytes(*window_at(mad, at)) as u64,
        4 => u32::from_be_bytes(*window_at(mad, at)) as u64,
        _ => u64::from_be_bytes(*window_at(mad, at)),
    };
    (word >> ((at + octets) * 8 - POSITION - WIDTH)) & mask(WIDTH)
}

/// Replaces the bits of a field and leaves its neighbours alone.
#[inline(always)]
pub(super) const fn set<const POSITION: usize, const WIDTH: usize>(mad: &mut Mad, value: u64) {
    const { assert!(fits_window(POSITION, WIDTH), "no window of 64 bits holds the field") };
    let (at, octets) = window(POSITION, WIDTH);
    let shift = (at + octets) * 8 - POSITION - WIDTH;
    let keep = !(mask(WIDTH) << shift);
    let bits = (value & mask(WIDTH)) << shift;
    match octets {
        1 => mad[at] = mad[at] & keep as u8 | bits as u8,
        2 => {
            let place = window_mut(mad, at);
            *place = (u16::from_be_bytes(*place) & keep as u16 | bits as u16).to_be_bytes();
        }
        4 => {
            let place = window_mut(mad, at);
            *place = (u32::from_be_bytes(*place) & keep as u32 | bits as u32).to_be_bytes();
        }
        _ => {
            let place = window_mut(mad, at);
            *place = (u64::from_be_bytes(*place) & keep | bits).to_be_bytes();
        }
    }
}

/// An array inside the MAD.
#[inline(always)]
pub(super) const fn octets<const AT: usize, const N: usize>(mad: &Mad) -> &[u8; N] {
    part::<AT, N, MAD_LEN>(mad)
}

/// An array inside the MAD, to be written.
#[inline(always)]
pub(super) const fn octets_mut<const AT: usize, const N: usize>(mad: &mut Mad) -> &mut [u8; N] {
    part_mut::<AT, N, MAD_LEN>(mad)
}

/// `N` octets at a constant place of a longer array.
#[inline(always)]
pub(super) const fn part<const AT: usize, const N: usize, const M: usize>(
    whole: &[u8; M],
) -> &[u8; N] {
    const { assert!(AT + N <= M, "the part ends beyond the array") };
    match whole.split_at(AT).1.first_chunk() {
        Some(part) => part,
        None => unreachable!(),
    }
}

/// `N` octets at a constant place of a longer array, to be written.
#[inline(always)]
pub(super) const fn part_mut<const AT: usize, const N: usize, const M: usize>(
    whole: &mut [u8; M],
) -> &mut [u8; N] {
    const { assert!(AT + N <= M, "the part ends beyond the array") };
    match whole.split_at_mut(AT).1.first_chunk_mut() {
        Some(part) => part,
        None => unreachable!(),
    }
}

/// The bits of a field that is known at run time only: slow, for printing. Zero if there is no such
/// place in a MAD.
pub(super) fn get_slowly(mad: &Mad, position: usize, width: usize) -> u64 {
    (position..position + width).fold(0, |bits, at| {
        let octet = mad.get(at / 8).copied().unwrap_or(0);
        bits << 1 | u64::from(octet >> (7 - at % 8) & 1)
    })
}

/// First octet and length (1, 2, 4 or 8) of the window that holds a field; never beyond the MAD.
const fn window(position: usize, width: usize) -> (usize, usize) {
    let first = position / 8;
    let octets = (position + width).div_ceil(8) - first;
    let octets = if octets == 3 {
        4
    } else if octets > 4 {
        8
    } else {
        octets
    };
    (if first + octets > MAD_LEN { MAD_LEN - octets } else { first }, octets)
}

const fn fits_window(position: usize, width: usize) -> bool {
    width > 0 && position % 8 + width <= 64 && position + width <= MAD_LEN * 8
}

const fn mask(width: usize) -> u64 {
    u64::MAX >> (64 - width)
}

/// The octets of a window, as one word: gathered one by one, eight of them would be eight loads.
#[inline(always)]
pub(super) const fn window_at<const N: usize>(mad: &Mad, at: usize) -> &[u8; N] {
    match mad.split_at(at).1.first_chunk() {
        Some(octets) => octets,
        None => unreachable!(),
    }
}

#[inline(always)]
pub(super) const fn window_mut<const N: usize>(mad: &mut Mad, at: usize) -> &mut [u8; N] {
    match mad.split_at_mut(at).1.first_chunk_mut() {
        Some(octets) => octets,
        None => unreachable!(),
    }
}
