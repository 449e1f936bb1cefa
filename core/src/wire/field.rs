//! How a table of fields becomes code.
//!
//! Owns the macros `layout!` and `message!` and the types a field can have ([`Field`]). The bit
//! arithmetic is in `bits.rs`. A row reads like a row of the specification:
//!
//! ```text
//! 43.5/2   transport_service_type, set_transport_service_type: u8 = "0 RC, 1 UC, 2 RD, 3 extended.";
//! ```
//!
//! octet 43, bit 5 counted from the most significant, two bits wide; `92B` is a width in octets. Rows
//! stand in the order of the specification and include the reserved ones: `check.rs` proves at compile
//! time that each begins where the one before ends and that together they fill the message.

use core::fmt;

use super::bits::{get, octets_mut, set, window_at, window_mut};
use super::mad::Mad;
use crate::addr::{Gid, ServiceId};

/// Defines a newtype over 256 octets with a getter and a setter for each row.
///
/// `octets` is a field handed out as an array; `private` is the message's private data, which can be
/// set from a shorter slice.
macro_rules! layout {
    (
        $(#[$meta:meta])*
        $Name:ident at $base:literal, $length:literal octets {
            $( $pos:tt / $width:tt $get:ident $(, $set:ident : $ty:ident = $doc:literal)? ; )*
        }
        summary { $($shown:ident),* $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub struct $Name<B>(
            /// The 256 octets, owned or borrowed.
            pub B,
        );

        impl<B> $Name<B> {
            /// Every field in specification order, the reserved ones included.
            pub(super) const FIELDS: &'static [$crate::wire::field::FieldInfo] = &[$(
                $crate::wire::field::FieldInfo {
                    name: stringify!($get),
                    position: $crate::wire::check::position($base, stringify!($pos)),
                    width: $crate::wire::check::width(stringify!($width)),
                    kind: field_kind!($($ty)?),
                },
            )*];

            /// The fields that a one-line summary shows.
            pub(super) const SUMMARY: &'static [&'static str] = &[$(stringify!($shown)),*];
        }

        const _: () = {
            $crate::wire::check::check($Name::<()>::FIELDS, $base, $length);
            $crate::wire::check::check_names($Name::<()>::FIELDS, $Name::<()>::SUMMARY);
        };

        $( accessors!($Name, $base, $pos, $width, $get $(, $set, $ty, $doc)?); )*

        #[cfg(any(test, feature = "testing"))]
        #[allow(dead_code)]
        impl<B> $Name<B> {
            /// What tests can do with each field that is not reserved.
            pub(crate) const HANDLES: &'static [$crate::wire::tables::Handle] = &[$($(
                $crate::wire::tables::Handle {
                    #[cfg(test)]
                    name: stringify!($get),
                    fill: |mad, bits| {
                        let value = some_value!(bits, $width, $ty);
                        let _ = $Name(&mut *mad).$set(reference!(value, $ty));
                        assert_eq!($Name(&*mad).$get(), reference!(value, $ty), stringify!($get));
                    },
                    copy: |from, to| {
                        let _ = $Name(to).$set($Name(from).$get());
                    },
                },
            )?)*];
        }

        impl<B: core::borrow::Borrow<$crate::wire::Mad>> core::fmt::Debug for $Name<B> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(&$crate::wire::View::new(self.0.borrow()), f)
            }
        }
    };
}

/// A CM message: the 232 octets after the MAD header.
macro_rules! message {
    (
        $(#[$meta:meta])*
        $Name:ident = $ATTRIBUTE:ident { $($rows:tt)* }
        summary { $($shown:tt)* }
    ) => {
        layout! {
            $(#[$meta])*
            $Name at 24, 232 octets { $($rows)* }
            summary { $($shown)* }
        }

        impl<B> $Name<B> {
            /// The attribute ID that marks this message.
            pub const ATTRIBUTE: $crate::wire::Attribute = $crate::wire::Attribute::$ATTRIBUTE;
        }

        impl<B: core::borrow::Borrow<$crate::wire::Mad>> $Name<B> {
            /// The whole MAD, for printing.
            #[inline]
            pub fn view(&self) -> $crate::wire::View<'_> {
                $crate::wire::View::new(self.0.borrow())
            }

            /// The transaction ID in the MAD header.
            #[inline(always)]
            pub fn transaction_id(&self) -> u64 {
                $crate::wire::Header(self.0.borrow()).transaction_id()
            }
        }

        impl<'a> $Name<&'a mut $crate::wire::Mad> {
            /// Begins a message: zero-fills `mad` and writes its header.
            #[inline(always)]
            pub fn emit(mad: &'a mut $crate::wire::Mad, transaction_id: u64) -> Self {
                $crate::wire::mad::begin(mad, Self::ATTRIBUTE, transaction_id);
                $Name(mad)
            }
        }
    };
}

/// The getter and the setter of one row.
macro_rules! accessors {
    ($Name:ident, $base:literal, $pos:tt, $width:tt, reserved) => {};
    ($Name:ident, $base:literal, $pos:tt, $width:tt, $get:ident, $set:ident, octets, $doc:literal) => {
        octet_getters!($Name, $base, $pos, $width, $get, $doc);

        impl<B: core::borrow::BorrowMut<$crate::wire::Mad>> $Name<B> {
            #[doc = concat!("Sets [`", stringify!($get), "`](Self::", stringify!($get), ").")]
            #[inline]
            pub fn $set(
                &mut self,
                value: &[u8; $crate::wire::check::width(stringify!($width)) / 8],
            ) -> &mut Self {
                *$crate::wire::bits::octets_mut::<
                    { $crate::wire::check::position($base, stringify!($pos)) / 8 },
                    { $crate::wire::check::width(stringify!($width)) / 8 },
                >(self.0.borrow_mut()) = *value;
                self
            }
        }
    };
    ($Name:ident, $base:literal, $pos:tt, $width:tt, $get:ident, $set:ident, private, $doc:literal) => {
        octet_getters!($Name, $base, $pos, $width, $get, $doc);

        impl<B> $Name<B> {
            /// Octets of private data that this message carries.
            pub const PRIVATE_DATA: usize = $crate::wire::check::width(stringify!($width)) / 8;
        }

        impl<B: core::borrow::BorrowMut<$crate::wire::Mad>> $Name<B> {
            #[doc = concat!("Sets [`", stringify!($get), "`](Self::", stringify!($get), "), zero-filled")]
            /// behind `data`. Nothing is changed if `data` is too long.
            #[inline]
            pub fn $set(&mut self, data: &[u8]) -> Result<(), $crate::wire::PrivateDataTooLong> {
                $crate::wire::field::set_prefix::<
                    { $crate::wire::check::position($base, stringify!($pos)) / 8 },
                    { $crate::wire::check::width(stringify!($width)) / 8 },
                >(self.0.borrow_mut(), data)
            }
        }
    };
    ($Name:ident, $base:literal, $pos:tt, $width:tt, $get:ident, $set:ident, $ty:ident, $doc:literal) => {
        impl<B: core::borrow::Borrow<$crate::wire::Mad>> $Name<B> {
            #[doc = $doc]
            #[inline(always)]
            pub fn $get(&self) -> $ty {
                <$ty as $crate::wire::field::Field>::load::<
                    { $crate::wire::check::position($base, stringify!($pos)) },
                    { $crate::wire::check::width(stringify!($width)) },
                >(self.0.borrow())
            }
        }

        impl<B: core::borrow::BorrowMut<$crate::wire::Mad>> $Name<B> {
            #[doc = concat!("Sets [`", stringify!($get), "`](Self::", stringify!($get), "); ")]
            #[doc = concat!("bits beyond its width (", stringify!($width), ") are dropped.")]
            #[inline(always)]
            pub fn $set(&mut self, value: $ty) -> &mut Self {
                <$ty as $crate::wire::field::Field>::store::<
                    { $crate::wire::check::position($base, stringify!($pos)) },
                    { $crate::wire::check::width(stringify!($width)) },
                >(value, self.0.borrow_mut());
                self
            }
        }
    };
}

/// Getters of an array. One per kind of storage: from `&'a Mad` the array lives as long as the MAD.
macro_rules! octet_getters {
    ($Name:ident, $base:literal, $pos:tt, $width:tt, $get:ident, $doc:literal) => {
        octet_getters!(@ $Name, $base, $pos, $width, $get, $doc, &'a $crate::wire::Mad, &'a);
        octet_getters!(@ $Name, $base, $pos, $width, $get, $doc, &'a mut $crate::wire::Mad, &);
        octet_getters!(@ $Name, $base, $pos, $width, $get, $doc, $crate::wire::Mad, &);
    };
    (@ $Name:ident, $base:literal, $pos:tt, $width:tt, $get:ident, $doc:literal,
        $storage:ty, & $($life:lifetime)?) => {
        #[allow(clippy::extra_unused_lifetimes, clippy::needless_lifetimes)]
        impl<'a> $Name<$storage> {
            #[doc = $doc]
            #[inline]
            pub fn $get(
                &self,
            ) -> & $($life)? [u8; $crate::wire::check::width(stringify!($width)) / 8] {
                $crate::wire::bits::octets::<
                    { $crate::wire::check::position($base, stringify!($pos)) / 8 },
                    { $crate::wire::check::width(stringify!($width)) / 8 },
                >(&self.0)
            }
        }
    };
}

/// What [`FieldInfo::kind`] says for the type of a row.
macro_rules! field_kind {
    () => {
        $crate::wire::field::Kind::Reserved
    };
    (octets) => {
        $crate::wire::field::Kind::Octets
    };
    (private) => {
        $crate::wire::field::Kind::Octets
    };
    ($ty:ident) => {
        <$ty as $crate::wire::field::Field>::KIND
    };
}

/// A value that fits a field, of these bits.
#[cfg(any(test, feature = "testing"))]
macro_rules! some_value {
    ($bits:ident, $width:tt, octets) => {{
        const LEN: usize = $crate::wire::check::width(stringify!($width)) / 8;
        core::array::from_fn::<u8, LEN, _>(|_| $bits(8) as u8)
    }};
    ($bits:ident, $width:tt, private) => {
        some_value!($bits, $width, octets)
    };
    ($bits:ident, $width:tt, $ty:ident) => {
        <$ty as $crate::wire::tables::Sample>::sample(
            $bits,
            $crate::wire::check::width(stringify!($width)),
        )
    };
}

/// How the accessors of a field speak of its value: arrays by reference.
#[cfg(any(test, feature = "testing"))]
macro_rules! reference {
    ($value:ident, octets) => {
        &$value
    };
    ($value:ident, private) => {
        &$value
    };
    ($value:ident, $ty:ident) => {
        $value
    };
}

/// Private data longer than the message has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrivateDataTooLong {
    /// Octets that the message can carry.
    pub limit: usize,
}

impl fmt::Display for PrivateDataTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "private data too long: the message carries at most {} octets", self.limit)
    }
}

impl core::error::Error for PrivateDataTooLong {}

/// One row of a table, as [`View`](super::View) needs it.
#[derive(Clone, Copy)]
pub(super) struct FieldInfo {
    pub(super) name: &'static str,
    /// Bits from the start of the MAD.
    pub(super) position: usize,
    /// Bits.
    pub(super) width: usize,
    pub(super) kind: Kind,
}

/// How a field prints.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Reserved,
    Number,
    /// A number whose values have names.
    Code(fn(u64) -> Option<&'static str>),
    Gid,
    Octets,
}

/// A type that a field can have.
pub(super) trait Field: Sized {
    const KIND: Kind = Kind::Number;
    fn load<const POSITION: usize, const WIDTH: usize>(mad: &Mad) -> Self;
    fn store<const POSITION: usize, const WIDTH: usize>(self, mad: &mut Mad);
}

macro_rules! unsigned {
    ($($ty:ident)*) => {$(
        impl Field for $ty {
            #[inline(always)]
            fn load<const POSITION: usize, const WIDTH: usize>(mad: &Mad) -> $ty {
                const { assert!(WIDTH <= $ty::BITS as usize, "the field is wider than its type") };
                get::<POSITION, WIDTH>(mad) as $ty
            }

            #[inline(always)]
            fn store<const POSITION: usize, const WIDTH: usize>(self, mad: &mut Mad) {
                set::<POSITION, WIDTH>(mad, self as u64);
            }
        }
    )*};
}
unsigned!(u8 u16 u32 u64);

/// Makes a code (a newtype over an unsigned number with `name()`) a field type.
macro_rules! code_field {
    ($ty:ident($inner:ident)) => {
        impl $crate::wire::field::Field for $ty {
            const KIND: $crate::wire::field::Kind =
                $crate::wire::field::Kind::Code(|value| $ty(value as $inner).name());

            #[inline(always)]
            fn load<const POSITION: usize, const WIDTH: usize>(mad: &$crate::wire::Mad) -> $ty {
                $ty(<$inner as $crate::wire::field::Field>::load::<POSITION, WIDTH>(mad))
            }

            #[inline(always)]
            fn store<const POSITION: usize, const WIDTH: usize>(self, mad: &mut $crate::wire::Mad) {
                $crate::wire::field::Field::store::<POSITION, WIDTH>(self.0, mad);
            }
        }
    };
}

impl Field for bool {
    #[inline(always)]
    fn load<const POSITION: usize, const WIDTH: usize>(mad: &Mad) -> bool {
        const { assert!(WIDTH == 1, "a bool is one bit wide") };
        get::<POSITION, WIDTH>(mad) != 0
    }

    #[inline(always)]
    fn store<const POSITION: usize, const WIDTH: usize>(self, mad: &mut Mad) {
        set::<POSITION, WIDTH>(mad, self as u64);
    }
}

impl Field for ServiceId {
    #[inline(always)]
    fn load<const POSITION: usize, const WIDTH: usize>(mad: &Mad) -> ServiceId {
        ServiceId(u64::load::<POSITION, WIDTH>(mad))
    }

    #[inline(always)]
    fn store<const POSITION: usize, const WIDTH: usize>(self, mad: &mut Mad) {
        self.0.store::<POSITION, WIDTH>(mad);
    }
}

impl Field for Gid {
    const KIND: Kind = Kind::Gid;

    #[inline(always)]
    fn load<const POSITION: usize, const WIDTH: usize>(mad: &Mad) -> Gid {
        const { assert!(WIDTH == 128 && POSITION.is_multiple_of(8), "a GID is 16 whole octets") };
        Gid(*window_at(mad, POSITION / 8))
    }

    #[inline(always)]
    fn store<const POSITION: usize, const WIDTH: usize>(self, mad: &mut Mad) {
        const { assert!(WIDTH == 128 && POSITION.is_multiple_of(8), "a GID is 16 whole octets") };
        *window_mut(mad, POSITION / 8) = self.0;
    }
}

/// Writes `data` and zeros behind it.
#[inline(always)]
pub(super) fn set_prefix<const AT: usize, const N: usize>(
    mad: &mut Mad,
    data: &[u8],
) -> Result<(), PrivateDataTooLong> {
    let field = octets_mut::<AT, N>(mad);
    match field.split_at_mut_checked(data.len()) {
        Some((head, tail)) => {
            head.copy_from_slice(data);
            tail.fill(0);
            Ok(())
        }
        None => Err(PrivateDataTooLong { limit: N }),
    }
}
