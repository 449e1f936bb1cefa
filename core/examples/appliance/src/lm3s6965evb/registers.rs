//! A register of the chip: the only place where an address becomes a pointer.

/// A register of 32 bits.
#[derive(Clone, Copy)]
pub(crate) struct Register(u32);

impl Register {
    /// The register at this address of the chip's map: peripherals are from 0x4000_0000 to 0x400f_ffff.
    pub(crate) const fn at(address: u32) -> Register {
        assert!(address >= 0x4000_0000 && address <= 0x400f_fffc && address.is_multiple_of(4));
        Register(address)
    }

    pub(crate) fn read(self) -> u32 {
        // SAFETY: `at` has let through aligned addresses of peripherals only, which no memory of ours shares.
        unsafe { (self.0 as *const u32).read_volatile() }
    }

    pub(crate) fn write(self, value: u32) {
        // SAFETY: likewise.
        unsafe { (self.0 as *mut u32).write_volatile(value) }
    }

    /// Clears some bits, then sets some.
    pub(crate) fn change(self, clear: u32, set: u32) {
        self.write(self.read() & !clear | set);
    }
}
