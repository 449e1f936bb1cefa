//! The C face of nanocm: `libnanocm_ffi.{a,so}` and `include/nanocm.h`, which is made of this source.
//!
//! # Conventions
//!
//! * Prefix `ncm_`, constants `NCM_`. Nearly every function returns an [`ncm_error`]; results go
//!   through trailing pointers and are written only if it is `NCM_OK`.
//! * Memory is the caller's: asked for with `ncm_memory_size`, given to `ncm_init`. Nothing here
//!   allocates, and no function but `ncm_init` keeps a pointer it was given.
//! * A structure passed by pointer begins with its `size`, which the caller sets; so it can grow at
//!   its end. `ncm_addr` and `ncm_path`, parts of others, never change; the other two that are stand last.
//! * What comes from C is not trusted: pointers are checked for NULL and alignment, lengths, flags and
//!   enumerations for their range. A call that fails has changed nothing.
//! * No panic crosses the border; see [`ncm_error_code::NCM_PANICKED`].
//!
//! # The rooms
//!
//! | file | owns |
//! |---|---|
//! | `border/` | all unsafe code: pointers, the engine's door, memory cut into tables |
//! | `error.rs` | the error codes |
//! | `types/` | the structures, and what they are in Rust |
//! | `setup.rs` | sizes, defaults, `ncm_init`, `ncm_finish` |
//! | `pump.rs`, `frame.rs` | `ncm_handle_*` and `ncm_poll_*` |
//! | `ops/` | the operations |
//! | `get.rs`, `failure.rs`, `names.rs` | getters; failures in words; names and texts |

#![cfg_attr(not(feature = "std"), no_std)]
#![allow(non_camel_case_types)]
// One contract for all of them: `border`.
#![allow(clippy::missing_safety_doc)]

#[macro_use]
mod border;

// In the order in which the header has them.

mod error;

mod setup;

mod types;

mod ops;

mod pump;

mod frame;

mod get;

mod failure;

mod names;

#[cfg(not(feature = "std"))]
mod panic;

pub use border::ncm_cm;
pub use error::*;
pub use failure::*;
pub use frame::*;
pub use get::*;
pub use names::*;
pub use ops::*;
pub use pump::*;
pub use setup::*;
pub use types::*;
