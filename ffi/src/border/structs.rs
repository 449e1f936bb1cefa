//! Which structures of the header begin with their size, and how large each was when it was first
//! published. Later fields take 0 for "as before".

use super::Struct;
use crate::types::*;
use core::mem::{offset_of, size_of};

macro_rules! structs {
    ($($Struct:ident: $first:expr;)*) => {
        $(
            // SAFETY: `repr(C)`, integers and raw pointers without padding (`types/tests.rs` adds up
            // their sizes), the size in front (asserted below).
            unsafe impl Struct for $Struct {
                const FIRST_SIZE: usize = $first;
            }
            const _: () = assert!(offset_of!($Struct, size) == 0);
            const _: () = assert!(size_of::<$Struct>() >= $first);
        )*
    };
}

structs! {
    ncm_capacity: 32;
    ncm_completion: 104;
    ncm_config: 96;
    ncm_conn_param: 40 + 2 * size_of::<usize>();
    ncm_counters: 212;
    ncm_event: 360;
    ncm_frame: 88;
    ncm_peer_param: 44;
    ncm_port_event: 40;
    ncm_port_key: 40;
    ncm_qp_attrs: 100;
    ncm_request: 136;
    ncm_route: 80;
    ncm_transmit: 80;
}
