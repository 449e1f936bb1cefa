//! What is checked, and read from the tables, while compiling.
//!
//! None of it is in a program: `make coverage` leaves this file out.

use super::field::FieldInfo;

/// Fails to compile unless each field begins where the one before it ends and the last one ends at
/// octet `base + length`.
pub(super) const fn check(fields: &[FieldInfo], base: usize, length: usize) {
    let mut end = base * 8;
    let mut i = 0;
    while i < fields.len() {
        assert!(fields[i].position >= end, "a field overlaps the one before it");
        assert!(fields[i].position == end, "there is a gap before a field");
        end += fields[i].width;
        i += 1;
    }
    assert!(end == (base + length) * 8, "the fields don't fill the message");
}

/// Fails to compile if the summary names a field that the table does not have.
pub(super) const fn check_names(fields: &[FieldInfo], names: &[&str]) {
    let mut i = 0;
    while i < names.len() {
        let mut found = false;
        let mut j = 0;
        while j < fields.len() {
            found |= same(fields[j].name.as_bytes(), names[i].as_bytes());
            j += 1;
        }
        assert!(found, "the summary names an unknown field");
        i += 1;
    }
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// `"43.5"` is octet 43, bit 5, counted from octet `base`; in bits.
pub(super) const fn position(base: usize, text: &str) -> usize {
    let (octet, dot) = number(text.as_bytes(), 0);
    let bit = if dot < text.len() {
        assert!(text.as_bytes()[dot] == b'.', "a position is written octet.bit");
        let (bit, end) = number(text.as_bytes(), dot + 1);
        assert!(bit < 8 && end == text.len(), "a position is written octet.bit");
        bit
    } else {
        0
    };
    (base + octet) * 8 + bit
}

/// `"5"` is five bits, `"92B"` 92 octets; in bits.
pub(super) const fn width(text: &str) -> usize {
    let (width, end) = number(text.as_bytes(), 0);
    if end == text.len() {
        width
    } else {
        assert!(text.as_bytes()[end] == b'B' && end + 1 == text.len(), "a width is 5 or 92B");
        width * 8
    }
}

/// The decimal number at `from`, and where it ends.
const fn number(text: &[u8], from: usize) -> (usize, usize) {
    let mut value = 0;
    let mut at = from;
    while at < text.len() && text[at].is_ascii_digit() {
        value = value * 10 + (text[at] - b'0') as usize;
        at += 1;
    }
    assert!(at > from, "a number is missing");
    (value, at)
}
