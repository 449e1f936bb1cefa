//! The eleven messages as tables: every field by number, for tests and fuzz bodies.

use super::*;
use crate::addr::{Gid, ServiceId};

/// Bits from somewhere, as many as asked for, 64 at most.
pub(crate) type Bits<'a> = &'a mut dyn FnMut(usize) -> u64;

/// What a test can do with a field through its typed accessors. `layout!` makes one per row.
pub(crate) struct Handle {
    #[cfg(test)]
    pub(super) name: &'static str,
    /// Sets the field to a value of these bits and checks that it reads back.
    pub(crate) fill: fn(&mut Mad, Bits<'_>),
    /// Sets the field to what the getter says of another MAD.
    pub(crate) copy: fn(&Mad, &mut Mad),
}

/// A message's table as tests see it.
pub(crate) struct Table {
    pub(crate) attribute: Attribute,
    pub(crate) private_data: usize,
    #[cfg(test)]
    pub(super) fields: &'static [super::field::FieldInfo],
    pub(crate) handles: &'static [Handle],
    pub(crate) emit: fn(&mut Mad, u64),
    pub(crate) set_private_data: fn(&mut Mad, &[u8]) -> Result<(), PrivateDataTooLong>,
}

/// All eleven messages.
pub(crate) const TABLES: [Table; 11] = {
    macro_rules! tables {
        ($($Name:ident)*) => {
            [$(Table {
                attribute: $Name::<()>::ATTRIBUTE,
                private_data: $Name::<()>::PRIVATE_DATA,
                #[cfg(test)]
                fields: $Name::<()>::FIELDS,
                handles: $Name::<()>::HANDLES,
                emit: |mad, transaction_id| { $Name::emit(mad, transaction_id); },
                set_private_data: |mad, data| $Name(mad).set_private_data(data),
            }),*]
        };
    }
    tables! { Req Mra Rej Rep Rtu Dreq Drep SidrReq SidrRep Lap Apr }
};

/// Values no wider than a field.
pub(crate) trait Sample {
    fn sample(bits: Bits<'_>, width: usize) -> Self;
}

macro_rules! samples {
    ($($ty:ty: $from:expr;)*) => {$(
        impl Sample for $ty {
            fn sample(bits: Bits<'_>, width: usize) -> $ty {
                let from: fn(u64) -> $ty = $from;
                from(bits(width))
            }
        }
    )*};
}

samples! {
    bool: |bits| bits == 1;
    u8: |bits| bits as u8;
    u16: |bits| bits as u16;
    u32: |bits| bits as u32;
    u64: |bits| bits;
    ServiceId: ServiceId;
    Attribute: |bits| Attribute(bits as u16);
    RejectReason: |bits| RejectReason(bits as u16);
    MessageKind: |bits| MessageKind(bits as u8);
    SidrStatus: |bits| SidrStatus(bits as u8);
    ApStatus: |bits| ApStatus(bits as u8);
}

impl Sample for Gid {
    fn sample(bits: Bits<'_>, _: usize) -> Gid {
        Gid(core::array::from_fn(|_| bits(8) as u8))
    }
}
