//! The C face of nanocm: `libnanocm_ffi.{a,so}` and `include/nanocm.h`.
//!
//! Conventions: prefix `ncm_`; no call keeps a pointer it was given; an ABI version that a program
//! checks before anything else. Memory is the caller's, so that sizes can be chosen at run time.

use std::ffi::c_char;

/// Counts incompatible changes of `nanocm.h`.
const ABI_VERSION: u32 = 0;

/// The version of the interface this library was built with: compare it with `NCM_ABI_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn ncm_abi_version() -> u32 {
    ABI_VERSION
}

/// The library's version as text, for people. Static; do not free it.
#[unsafe(no_mangle)]
pub extern "C" fn ncm_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
