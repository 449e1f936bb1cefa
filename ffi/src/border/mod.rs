//! The border: the only unsafe code. Pointers become values and slices here, once, checked.
//!
//! # Safety
//! What every function of the header asks of its caller, and all that the code here relies on:
//!
//! * A pointer is NULL, or misaligned (both are refused), or good for what its type and the
//!   function's description say, until the function returns. A structure is as long as its `size`.
//! * An engine's memory is the engine's from `ncm_init` to `ncm_finish`: nobody else writes there, and
//!   no other pointer that a function is given points into it.

mod carve;
mod gate;
mod structs;

pub(crate) use carve::Carver;
pub use gate::ncm_cm;
pub(crate) use gate::{create, enter, finish};

use crate::ncm_error_code::*;
use crate::{ncm_error, ncm_error_code};
use core::mem::{MaybeUninit, size_of};
use core::ptr;

/// What a call comes to, before it is one number.
pub(crate) type Done = Result<(), ncm_error_code>;

/// The body of a function of the header. The border's contract holds in it, so it may call what relies
/// on it; a panic goes no further.
macro_rules! border {
    ($($body:tt)*) => {
        $crate::border::guard(|| {
            // SAFETY: the caller keeps to the header's contract (`border`).
            #[allow(unused_unsafe, clippy::macro_metavars_in_unsafe)]
            unsafe {
                $($body)*
            }
        })
    };
}

/// Lets no panic out.
pub(crate) fn guard(call: impl FnOnce() -> Done) -> ncm_error {
    #[cfg(feature = "std")]
    let done =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_or(Err(NCM_PANICKED));
    #[cfg(not(feature = "std"))]
    let done = call();
    done.err().unwrap_or(NCM_OK) as ncm_error
}

/// A structure that begins with its size and may grow at its end.
///
/// # Safety
/// `repr(C)`; integers, arrays of them, raw pointers and such structures, without padding; the first
/// is a `u32`, the size.
pub(crate) unsafe trait Struct: Copy {
    /// How large it was when it was first published.
    const FIRST_SIZE: usize;
}

/// No structure will ever be larger: what says so has not been initialised.
const LARGEST: usize = 4096;

/// Whether a pointer leads anywhere.
fn check<T>(pointer: *const T) -> Done {
    match () {
        () if pointer.is_null() => Err(NCM_NULL_POINTER),
        () if !pointer.is_aligned() => Err(NCM_MISALIGNED),
        () => Ok(()),
    }
}

/// Memory that leads somewhere and is aligned to `align`, a power of two.
pub(crate) fn aligned(memory: *mut u8, align: usize) -> Result<*mut u8, ncm_error_code> {
    check(memory)?;
    if memory.addr() & (align - 1) == 0 { Ok(memory) } else { Err(NCM_MISALIGNED) }
}

/// What the caller says a structure's size is.
///
/// # Safety
/// The border's contract.
unsafe fn size_of_struct<T: Struct>(pointer: *const T) -> Result<usize, ncm_error_code> {
    check(pointer)?;
    // SAFETY: the pointer is good for at least the size in front.
    let size = unsafe { pointer.cast::<u32>().read() } as usize;
    if (T::FIRST_SIZE..=LARGEST).contains(&size) { Ok(size) } else { Err(NCM_BAD_SIZE) }
}

/// A structure from the caller. What an older program does not have is zero; what a newer one has
/// beyond must be zero.
///
/// # Safety
/// The border's contract.
pub(crate) unsafe fn input<T: Struct>(pointer: *const T) -> Result<T, ncm_error_code> {
    // SAFETY: as here.
    let size = unsafe { size_of_struct(pointer) }?;
    let known = size.min(size_of::<T>());
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the structure is as long as it says, and the value as long as its type.
    unsafe { ptr::copy_nonoverlapping(pointer.cast::<u8>(), value.as_mut_ptr().cast(), known) };
    for offset in known..size {
        // SAFETY: within what the structure says it has.
        if unsafe { pointer.cast::<u8>().add(offset).read() } != 0 {
            return Err(NCM_UNKNOWN_FIELDS);
        }
    }
    // SAFETY: any bits make a `Struct`.
    Ok(unsafe { value.assume_init() })
}

/// A plain value from the caller.
///
/// # Safety
/// The border's contract; any bits make a `T`.
pub(crate) unsafe fn value<T: Copy>(pointer: *const T) -> Result<T, ncm_error_code> {
    check(pointer)?;
    // SAFETY: not NULL, aligned, and good for a `T` by contract.
    Ok(unsafe { pointer.read() })
}

/// A plain value from the caller, or NULL for none.
///
/// # Safety
/// As [`value`].
pub(crate) unsafe fn optional<T: Copy>(pointer: *const T) -> Result<Option<T>, ncm_error_code> {
    // SAFETY: as here.
    if pointer.is_null() { Ok(None) } else { unsafe { value(pointer) }.map(Some) }
}

/// Octets from the caller; at most `most`, else `too_long`. NULL will do for none.
///
/// # Safety
/// The border's contract.
pub(crate) unsafe fn octets<'a>(
    pointer: *const u8,
    len: usize,
    most: usize,
    too_long: ncm_error_code,
) -> Result<&'a [u8], ncm_error_code> {
    if len == 0 {
        return Ok(&[]);
    }
    check(pointer)?;
    if len > most {
        return Err(too_long);
    }
    // SAFETY: not NULL, and good for `len` octets until the function returns.
    Ok(unsafe { core::slice::from_raw_parts(pointer, len) })
}

/// Private data from the caller.
///
/// # Safety
/// The border's contract.
pub(crate) unsafe fn private_data<'a>(
    data: *const u8,
    len: usize,
) -> Result<&'a [u8], ncm_error_code> {
    /// No message takes more.
    const MOST: usize = 256;
    // SAFETY: as here.
    unsafe { octets(data, len, MOST, NCM_PRIVATE_DATA_TOO_LONG) }
}

/// A place for a result: written once the call has succeeded.
pub(crate) struct Out<T> {
    place: *mut T,
    /// What the caller has room for; 0: exactly a `T`.
    size: usize,
}

/// A place for a plain value.
///
/// # Safety
/// The border's contract.
pub(crate) unsafe fn output<T>(place: *mut T) -> Result<Out<T>, ncm_error_code> {
    check(place)?;
    Ok(Out { place, size: 0 })
}

/// A place for a plain value, or NULL for one that is not wanted.
///
/// # Safety
/// The border's contract.
pub(crate) unsafe fn optional_output<T>(place: *mut T) -> Result<Out<T>, ncm_error_code> {
    // SAFETY: as here.
    if place.is_null() { Ok(Out { place, size: 0 }) } else { unsafe { output(place) } }
}

/// A place for a structure.
///
/// # Safety
/// The border's contract.
pub(crate) unsafe fn output_struct<T: Struct>(place: *mut T) -> Result<Out<T>, ncm_error_code> {
    // SAFETY: as here.
    let size = unsafe { size_of_struct(place) }?;
    Ok(Out { place, size })
}

/// A place for a structure whose size the caller gives apart: it has not been filled in before.
///
/// # Safety
/// The border's contract.
pub(crate) unsafe fn output_sized<T: Struct>(
    place: *mut T,
    size: usize,
) -> Result<Out<T>, ncm_error_code> {
    check(place)?;
    if (T::FIRST_SIZE..=LARGEST).contains(&size) {
        Ok(Out { place, size })
    } else {
        Err(NCM_BAD_SIZE)
    }
}

impl<T: Copy> Out<T> {
    /// Writes the result.
    pub(crate) fn put(self, value: T) {
        if self.place.is_null() {
            return;
        }
        if self.size == 0 {
            // SAFETY: not NULL, aligned, and good for a `T`: checked and promised at `output`.
            unsafe { self.place.write(value) };
            return;
        }
        let known = self.size.min(size_of::<T>());
        let place = self.place.cast::<u8>();
        let size = self.size as u32;
        // SAFETY: the place has `size` octets, checked and promised at `output_struct`; `T` is a
        // `Struct`, which begins with its size.
        unsafe {
            ptr::copy_nonoverlapping(ptr::from_ref(&value).cast(), place, known);
            place.add(known).write_bytes(0, self.size - known);
            place.cast::<u32>().write(size);
        }
    }
}

/// Room for octets.
pub(crate) struct Buffer {
    place: *mut u8,
    size: usize,
}

/// Room for `size` octets; NULL will do for none.
///
/// # Safety
/// The border's contract.
pub(crate) unsafe fn buffer(place: *mut u8, size: usize) -> Result<Buffer, ncm_error_code> {
    if size > 0 {
        check(place)?;
    }
    Ok(Buffer { place, size })
}

impl Buffer {
    /// Writes octets, all or (if there is no room for them) none.
    pub(crate) fn put(self, octets: &[u8]) -> Done {
        if octets.len() > self.size {
            return Err(NCM_BUFFER_TOO_SMALL);
        }
        if !octets.is_empty() {
            // SAFETY: there is room for `size` octets: checked and promised at `buffer`.
            unsafe { ptr::copy_nonoverlapping(octets.as_ptr(), self.place, octets.len()) };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
