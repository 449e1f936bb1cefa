//! The appliance on the Cortex-M3 board that QEMU calls `lm3s6965evb`.
//!
//! No interrupt has a handler: interrupts stay masked, and one that is pending ends the processor's sleep. So there is
//! nothing to share and nothing to lock.

#![no_std]
#![no_main]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod clock;
mod ethernet;
mod host;
mod registers;

#[cfg(feature = "defmt")]
use defmt_semihosting as _; // a logger is there by being linked

use clock::Clock;
use core::net::Ipv4Addr;
use cortex_m::interrupt::InterruptNumber;
use cortex_m::peripheral::NVIC;
use cortex_m_rt::{ExceptionFrame, entry, exception};
use ethernet::Ethernet;
use nanocm_appliance::{Board, Memory, Settings, run};
use nanocm_core::Instant;

/// All zero bits: it lands in `.bss` and costs no flash.
static mut MEMORY: Memory = Memory::new();

/// Our address, as the environment said when this was built.
const ADDRESS: &str = match option_env!("APPLIANCE_ADDRESS") {
    Some(address) => address,
    None => "10.99.0.9",
};
const PREFIX: u8 = 24;

/// Exit codes.
const DONE: usize = 0;
const BAD_SETTINGS: usize = 2;
const PANIC: usize = 101;
const FAULT: usize = 102;

#[entry]
fn main() -> ! {
    cortex_m::interrupt::disable();
    clock::start_clocks();
    let Some(peripherals) = cortex_m::Peripherals::take() else { host::exit(BAD_SETTINGS) };
    let mac = clock::mac_address();
    let mut board =
        Lm3s6965 { clock: Clock::start(peripherals.SYST), ethernet: Ethernet::new(mac) };
    // SAFETY: no interrupt has a handler that would be surprised.
    unsafe {
        NVIC::unmask(Irq(ethernet::IRQ));
        NVIC::unmask(Irq(clock::ALARM_IRQ));
    }
    let random = (host::random(), host::random());
    let (Ok(address), (Some(seed), Some(first_qpn))) = (ADDRESS.parse::<Ipv4Addr>(), random) else {
        host::exit(BAD_SETTINGS)
    };
    let memory = &raw mut MEMORY;
    // SAFETY: `main` runs once, and this is the only reference.
    let memory = unsafe { &mut *memory };
    host::print("ready");
    let settings = Settings { address, prefix: PREFIX, mac, seed, first_qpn: first_qpn as u32 };
    host::exit(if run(&mut board, memory, &settings) { DONE } else { BAD_SETTINGS })
}

struct Lm3s6965 {
    clock: Clock,
    ethernet: Ethernet,
}

impl Board for Lm3s6965 {
    fn now(&mut self) -> Instant {
        self.clock.now()
    }

    fn receive(&mut self, frame: &mut [u8]) -> Option<usize> {
        self.ethernet.receive(frame)
    }

    fn send(&mut self, frame: &[u8]) {
        self.ethernet.send(frame);
    }

    fn sleep(&mut self, until: Option<Instant>) {
        NVIC::unpend(Irq(clock::ALARM_IRQ));
        let in_future = self.clock.arm(until);
        // What comes after this is pending again, so that nothing is slept over.
        NVIC::unpend(Irq(ethernet::IRQ));
        if in_future && self.ethernet.is_idle() {
            cortex_m::asm::dsb();
            cortex_m::asm::wfi();
        }
    }

    fn stack(&self) -> (usize, usize) {
        let (end, start) = (&raw const _stack_end, &raw const _stack_start);
        let size = start as usize - end as usize;
        let words = size / size_of::<u32>();
        let mut painted = 0;
        // SAFETY: the linker has left the stack's room between these, whole words of it, and the startup code has
        // painted it.
        while painted < words && unsafe { end.add(painted).read_volatile() } == PAINT {
            painted += 1;
        }
        (size - painted * size_of::<u32>(), size)
    }

    fn statics(&self) -> usize {
        // `.data` and `.bss` lie below the stack's room.
        &raw const _stack_end as usize - 0x2000_0000
    }

    fn lost(&self) -> (u32, u32) {
        (self.ethernet.overruns, self.ethernet.damaged)
    }

    fn print(&mut self, line: &str) {
        host::print(line);
    }
}

unsafe extern "C" {
    static _stack_end: u32;
    static _stack_start: u32;
}

/// What cortex-m-rt paints the stack with.
const PAINT: u32 = 0xcccc_cccc;

/// An interrupt of the chip, by its number.
#[derive(Clone, Copy)]
struct Irq(u8);

// SAFETY: always the same number for the same value.
unsafe impl InterruptNumber for Irq {
    fn number(self) -> u16 {
        u16::from(self.0)
    }
}

#[exception]
unsafe fn HardFault(_: &ExceptionFrame) -> ! {
    host::exit(FAULT)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    host::exit(PANIC)
}
