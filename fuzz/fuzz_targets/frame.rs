#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| nanocm_core::testing::fuzz::frame(octets));
