#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| nanocm_core::testing::fuzz::wire_round_trip(octets));
