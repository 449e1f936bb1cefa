//! Clocks: the PLL, SysTick as the time, timer 0 as the alarm.
//!
//! Read first: LM3S6965 data sheet, chapters "System Control" and "General-Purpose Timers"; ARMv7-M, SysTick.

use crate::registers::Register;
use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use nanocm_core::Instant;

const SYSCTL: u32 = 0x400f_e000;
const RIS: Register = Register::at(SYSCTL + 0x050);
const RCC: Register = Register::at(SYSCTL + 0x060);
const RCGC1: Register = Register::at(SYSCTL + 0x104);
const RCGC2: Register = Register::at(SYSCTL + 0x108);
const USER_REG0: Register = Register::at(SYSCTL + 0x1e0);
const USER_REG1: Register = Register::at(SYSCTL + 0x1e4);

const TIMER0: u32 = 0x4003_0000;
const GPTMCFG: Register = Register::at(TIMER0);
const GPTMTAMR: Register = Register::at(TIMER0 + 0x004);
const GPTMCTL: Register = Register::at(TIMER0 + 0x00c);
const GPTMIMR: Register = Register::at(TIMER0 + 0x018);
const GPTMICR: Register = Register::at(TIMER0 + 0x024);
const GPTMTAILR: Register = Register::at(TIMER0 + 0x028);

/// The interrupt's number of timer 0 A.
pub(crate) const ALARM_IRQ: u8 = 19;

/// The PLL's 200 MHz by 16: slow, but SysTick, whose 24 bits then last for 1.3 s, is read more often than that.
const TICK: u64 = 80;
const RELOAD: u32 = 0xff_ffff;
/// The longest sleep: half of what SysTick can tell apart. Who is up later than the other half loses time.
const SLEEP: u64 = RELOAD as u64 / 2;

/// Starts the PLL, and the clocks of the peripherals that are used.
pub(crate) fn start_clocks() {
    const SYSDIV: u32 = 0xf << 23;
    const USESYSDIV: u32 = 1 << 22;
    const PWRDN: u32 = 1 << 13;
    const OEN: u32 = 1 << 12;
    const BYPASS: u32 = 1 << 11;
    const XTAL: u32 = 0xf << 6;
    const XTAL_8_MHZ: u32 = 0xe << 6;
    const OSCSRC: u32 = 3 << 4;
    const MOSCDIS: u32 = 1;
    const PLLLRIS: u32 = 1 << 6;

    RCC.change(USESYSDIV, BYPASS);
    RCC.change(XTAL | OSCSRC | PWRDN | OEN | MOSCDIS, XTAL_8_MHZ);
    RCC.change(0, SYSDIV | USESYSDIV);
    while RIS.read() & PLLLRIS == 0 {}
    RCC.change(BYPASS, 0);
    RCGC1.change(0, 1 << 16); // timer 0
    RCGC2.change(0, 1 << 30 | 1 << 28); // Ethernet's PHY and MAC
    // The clocks take some cycles to arrive.
    RCGC2.read();
    RCGC2.read();
}

/// The Ethernet address that the board's maker has left in the chip.
pub(crate) fn mac_address() -> [u8; 6] {
    let [a, b, c, _] = USER_REG0.read().to_le_bytes();
    let [d, e, f, _] = USER_REG1.read().to_le_bytes();
    [a, b, c, d, e, f]
}

/// The time since the start.
pub(crate) struct Clock {
    systick: SYST,
    /// Ticks until SysTick last began anew.
    passed: u64,
}

impl Clock {
    pub(crate) fn start(mut systick: SYST) -> Clock {
        systick.set_clock_source(SystClkSource::Core);
        systick.set_reload(RELOAD);
        systick.clear_current();
        systick.enable_counter();
        GPTMCTL.write(0);
        GPTMCFG.write(0); // 32 bits
        GPTMTAMR.write(1); // once
        GPTMIMR.write(1);
        Clock { systick, passed: 0 }
    }

    pub(crate) fn now(&mut self) -> Instant {
        Instant::from_nanos(self.ticks() * TICK)
    }

    /// Arms the alarm for then, or for [`SLEEP`] at most, since the clock wants to be read. False if it is past.
    pub(crate) fn arm(&mut self, until: Option<Instant>) -> bool {
        let now = self.ticks();
        let until = until.map_or(u64::MAX, |until| until.as_nanos().div_ceil(TICK));
        let ticks = until.saturating_sub(now).min(SLEEP);
        GPTMCTL.write(0);
        GPTMICR.write(1);
        if ticks == 0 {
            return false;
        }
        GPTMTAILR.write(ticks as u32);
        GPTMCTL.write(1);
        true
    }

    fn ticks(&mut self) -> u64 {
        loop {
            let before = elapsed();
            if self.systick.has_wrapped() {
                self.passed += u64::from(RELOAD) + 1;
            }
            let after = elapsed();
            // Else it has begun anew in between, perhaps after it was asked whether it has.
            if after >= before {
                return self.passed + u64::from(after);
            }
        }
    }
}

/// Ticks since SysTick, which counts down to 0, began anew. It says so when it reaches 0.
fn elapsed() -> u32 {
    (RELOAD + 1 - SYST::get_current()) & RELOAD
}
