//! CRC-32 for the ICRC, with whatever instructions the processor has for it.

/// CRC-32 (IEEE 802.3) of some pieces put together: a [`Crc`](nanocm_core::wire::icrc::Crc).
pub fn crc32(pieces: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for piece in pieces {
        hasher.update(piece);
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nanocm_core::wire::icrc;

    #[test]
    fn it_is_the_crc_of_the_core() {
        let pieces: [&[&[u8]]; 4] =
            [&[], &[b"123456789"], &[b"12345", b"", b"6789"], &[&[0xff; 8], &[0; 300]]];
        for pieces in pieces {
            assert_eq!(crc32(pieces), icrc::crc32(pieces));
        }
        assert_eq!(crc32(&[b"123456789"]), 0xcbf4_3926);
    }
}
