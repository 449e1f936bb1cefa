//! A CM appliance without an operating system: who connects gets a queue pair that is only a number.
//!
//! Everything here runs on any processor; a [`Board`] is what it needs of the hardware. The one there is, the Cortex-M3
//! board that QEMU calls `lm3s6965evb`, is in `lm3s6965evb/`. `docs/appliance.md` is the walk through.
//!
//! | file | owns |
//! |---|---|
//! | `run.rs` | the main loop, and all memory |
//! | `board.rs` | what a board must do |
//! | `roce.rs` | Ethernet frames around CM messages |
//! | `neighbours.rs` | which MAC address an IP address has |
//! | `service.rs` | what the application does: whom it accepts, whom it calls |
//! | `host.rs` | ARP, ping and the control port, by smoltcp |
//! | `control.rs` | the control port's commands, and the report |

#![no_std]
#![forbid(unsafe_code)]

mod board;
mod control;
mod host;
mod neighbours;
mod roce;
mod run;
mod service;
mod text;

pub use board::Board;
pub use run::{Memory, Settings, run};
