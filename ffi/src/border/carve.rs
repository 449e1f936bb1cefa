//! Memory from C, cut into tables.

use core::mem::{align_of, size_of};

/// Cuts tables off a piece of memory one after the other, or only measures them.
pub(crate) struct Carver {
    /// Null: nothing is cut.
    memory: *mut u8,
    size: usize,
    offset: usize,
}

impl Carver {
    /// Measures.
    pub(crate) const fn ruler() -> Carver {
        Carver { memory: core::ptr::null_mut(), size: usize::MAX, offset: 0 }
    }

    /// Cuts.
    ///
    /// # Safety
    /// `memory` is good for `size` octets, aligned for every type that is taken, and its owner's alone
    /// as long as what was taken is in use.
    pub(crate) const unsafe fn new(memory: *mut u8, size: usize) -> Carver {
        Carver { memory, size, offset: 0 }
    }

    /// How much has been taken.
    pub(crate) const fn taken(&self) -> usize {
        self.offset
    }

    /// Leaves room for `count` values: where it begins. `None`: there is not as much.
    pub(crate) fn skip<T>(&mut self, count: usize) -> Option<usize> {
        let start = self.offset.checked_next_multiple_of(align_of::<T>())?;
        let end = start.checked_add(count.checked_mul(size_of::<T>())?)?;
        if end > self.size || isize::try_from(end).is_err() {
            return None;
        }
        self.offset = end;
        Some(start)
    }

    /// Room for `count` values, none if it is only measured. `None`: there is not as much.
    pub(crate) fn take<T: Copy + 'static>(
        &mut self,
        count: usize,
        empty: T,
    ) -> Option<&'static mut [T]> {
        let start = self.skip::<T>(count)?;
        if self.memory.is_null() {
            return Some(&mut []);
        }
        // SAFETY: `skip` has seen to it that this lies within the memory, aligned; nobody else has it,
        // since `offset` only grows. Every value is written before it is lent.
        unsafe {
            let first = self.memory.add(start).cast::<T>();
            for index in 0..count {
                first.add(index).write(empty);
            }
            Some(core::slice::from_raw_parts_mut(first, count))
        }
    }
}
