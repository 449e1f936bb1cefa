//! How deep the stack goes on a microcontroller: read off the machine code of the passive responder.
//!
//! The depth of a function is what its prologue takes and the deepest of what it calls. Both are in
//! the instructions: so this is a bound for every path through the program, also those that no test
//! takes, and it needs no tool. A call through a register counts as a call of each function whose
//! address is taken anywhere. What cannot be followed (recursion, a stack pointer that is computed)
//! fails the budget instead of being guessed.
//!
//! Read first: the ARMv7-M Architecture Reference Manual, A5 (Thumb instruction set encoding).

use crate::memory::build_responder;
use crate::report::Report;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const LIMIT: u64 = 2 * 1024;

/// From a packet in the mailbox to the answers in the mailbox, the buffers for both included.
const RECEIVE_PATH: &str = "responder::turn";

/// Parts of it, by the ends of their names.
const PARTS: [(&str, &str); 4] = [
    ("handle_datagram", "Cm::handle_datagram"),
    ("handle_timeout", "Cm::handle_timeout"),
    ("poll_transmit, when there is something", "Cm::transmit"),
    ("poll_event, when there is something", "Cm::tell"),
];

/// Measures the receive path of the passive responder.
pub fn stack(report: &mut Report) {
    report
        .section("stack (octets): passive responder, thumbv7m, opt-level s; a bound for all paths");
    let what = "receive path, with 584 octets of packet buffers";
    let mut program = match build_responder().and_then(|path| Program::read(&path)) {
        Ok(program) => program,
        Err(why) => return report.failed(what, why),
    };
    let (depth, chain) = match program.depth_of(RECEIVE_PATH) {
        Ok(deepest) => deepest,
        Err(why) => return report.failed(what, why),
    };
    report.at_most(what, depth, LIMIT);
    for (name, octets) in chain {
        report.note(format!("{octets:>5} {name}"));
    }
    for (what, name) in PARTS {
        match program.depth_of(name) {
            Ok((depth, _)) => report.info(what, depth),
            Err(why) => report.failed(what, why),
        }
    }
}

/// A program's functions by address.
struct Program {
    functions: BTreeMap<u64, Function>,
    /// Depth of those that have been followed, and the callee that makes it.
    followed: BTreeMap<u64, (u64, Option<u64>)>,
    under_way: BTreeSet<u64>,
}

struct Function {
    name: String,
    /// Octets it takes itself.
    frame: u64,
    /// Where it goes: calls, and jumps that leave it.
    callees: BTreeSet<u64>,
    /// Whether it calls through a register.
    calls_any: bool,
    /// Values it makes in registers, 16 bits at a time: addresses of functions may be among them.
    registers: [u32; 16],
    constants: BTreeSet<u64>,
    /// Why its stack cannot be told.
    fault: Option<String>,
}

impl Program {
    fn read(path: &Path) -> Result<Program, String> {
        let octets = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let file = object::File::parse(&*octets).map_err(|e| e.to_string())?;
        let text = file.section_by_name(".text").ok_or("no .text")?;
        let code = text.data().map_err(|e| e.to_string())?;
        // $t and $d mark where instructions and data begin.
        let mut marks = BTreeMap::new();
        for symbol in file.symbols() {
            match symbol.name() {
                Ok(name) if name.starts_with("$t") => marks.insert(symbol.address(), true),
                Ok(name) if name.starts_with("$d") => marks.insert(symbol.address(), false),
                _ => None,
            };
        }
        let is_code = |at| marks.range(..=at).next_back().is_some_and(|(_, code)| *code);
        let mut functions = BTreeMap::new();
        for symbol in file.symbols().filter(|s| s.kind() == SymbolKind::Text && s.size() > 0) {
            let (start, end) = (symbol.address() & !1, (symbol.address() & !1) + symbol.size());
            let mut function = Function {
                name: readable(symbol.name().unwrap_or_default()),
                frame: 0,
                callees: BTreeSet::new(),
                calls_any: false,
                registers: [0; 16],
                constants: BTreeSet::new(),
                fault: None,
            };
            let mut at = start;
            while at < end {
                let half = |at: u64| {
                    let from = (at - text.address()) as usize;
                    let octets = code.get(from..from + 2)?;
                    Some(u32::from(u16::from_le_bytes([octets[0], octets[1]])))
                };
                let Some(first) = half(at) else { return Err(format!("{at:#x} is not in .text")) };
                if !is_code(at) {
                    at += 2;
                } else if first >> 11 >= 0b11101 {
                    let second = half(at + 2).ok_or("an instruction is cut off")?;
                    function.take_long(first, second, at, start..end);
                    at += 4;
                } else {
                    function.take_short(first, at, start..end);
                    at += 2;
                }
            }
            functions.insert(start, function);
        }
        let mut words: BTreeSet<u64> =
            functions.values().flat_map(|f| f.constants.clone()).collect();
        for section in file.sections().filter(|section| section.address() != 0) {
            for word in
                section.data().unwrap_or_default().chunks_exact(2).collect::<Vec<_>>().windows(2)
            {
                let word = [word[0][0], word[0][1], word[1][0], word[1][1]];
                words.insert(u32::from_le_bytes(word).into());
            }
        }
        // Thumb code has odd addresses.
        let taken: BTreeSet<u64> =
            functions.keys().copied().filter(|start| words.contains(&(start | 1))).collect();
        for function in functions.values_mut().filter(|function| function.calls_any) {
            function.callees.extend(&taken);
        }
        Ok(Program { functions, followed: BTreeMap::new(), under_way: BTreeSet::new() })
    }

    /// The depth of the function with this name, and the deepest chain of calls with what each takes.
    fn depth_of(&mut self, name: &str) -> Result<(u64, Vec<(String, u64)>), String> {
        let found = self.functions.iter().find(|(_, function)| function.name.ends_with(name));
        let (&start, _) = found.ok_or_else(|| format!("there is no function {name}"))?;
        let depth = self.follow(start)?;
        let (mut chain, mut next) = (Vec::new(), Some(start));
        while let Some(at) = next {
            let function = &self.functions[&at];
            chain.push((function.name.clone(), function.frame));
            next = self.followed[&at].1;
        }
        Ok((depth, chain))
    }

    fn follow(&mut self, at: u64) -> Result<u64, String> {
        if let Some((depth, _)) = self.followed.get(&at) {
            return Ok(*depth);
        }
        let function = self.functions.get(&at).ok_or(format!("no function begins at {at:#x}"))?;
        if let Some(fault) = &function.fault {
            return Err(format!("{}: {fault}", function.name));
        }
        if !self.under_way.insert(at) {
            return Err(format!("{} is recursive", function.name));
        }
        let (frame, callees) = (function.frame, function.callees.clone());
        let (mut below, mut deepest) = (0, None);
        for callee in callees {
            let depth = self.follow(callee)?;
            if depth > below {
                (below, deepest) = (depth, Some(callee));
            }
        }
        self.under_way.remove(&at);
        self.followed.insert(at, (frame + below, deepest));
        Ok(frame + below)
    }
}

/// What the instructions do to the stack pointer and where they go. Pops are not looked at: what is
/// taken adds up.
impl Function {
    fn take_short(&mut self, code: u32, at: u64, own: core::ops::Range<u64>) {
        let signed =
            |bits: u32, width: u32| i64::from((bits << (32 - width)) as i32 >> (31 - width));
        match code >> 8 {
            // PUSH, SUB SP, #imm
            0b1011_0100 | 0b1011_0101 => self.frame += 4 * u64::from((code & 0x1ff).count_ones()),
            0b1011_0000 if code & 0x80 != 0 => self.frame += 4 * u64::from(code & 0x7f),
            // BLX and BX of a register; back to the caller is BX LR.
            0b0100_0111 if code & 0x78 != 14 << 3 => self.calls_any = true,
            // MOV SP from another register, ADD SP to one
            0b0100_0110 | 0b0100_0100 if code & 0x87 == 0x85 => {
                self.fail("a stack pointer that is computed", at);
            }
            0b1101_0000..=0b1101_1101 => self.jump(at, signed(code & 0xff, 8), own),
            0b1110_0000..=0b1110_0111 => self.jump(at, signed(code & 0x7ff, 11), own),
            _ => {}
        }
    }

    fn take_long(&mut self, first: u32, second: u32, at: u64, own: core::ops::Range<u64>) {
        let to_sp = second & 0x0f00 == 0x0d00;
        match (first, second) {
            // STMDB SP!
            (0xe92d, _) => self.frame += 4 * u64::from(second.count_ones()),
            // SUB.W SP, SP, #const and SUBW SP, SP, #imm12
            (0xf1ad | 0xf5ad, _) if to_sp => self.frame += u64::from(expand(first, second)),
            (0xf2ad | 0xf6ad, _) if to_sp => self.frame += u64::from(imm12(first, second)),
            // STR and STRD [SP, #-imm]!
            (0xf84d, _) if second & 0x0f00 == 0x0d00 => self.frame += u64::from(second & 0xff),
            (0xe96d, _) => self.frame += 4 * u64::from(second & 0xff),
            // MOVW, MOVT
            (0xf240..=0xf24f | 0xf640..=0xf64f, _) => {
                self.registers[(second >> 8 & 15) as usize] =
                    (first & 15) << 12 | imm12(first, second);
            }
            (0xf2c0..=0xf2cf | 0xf6c0..=0xf6cf, _) => {
                let low = self.registers[(second >> 8 & 15) as usize] & 0xffff;
                let high = (first & 15) << 12 | imm12(first, second);
                self.constants.insert(u64::from(high << 16 | low));
            }
            // SUB.W SP, SP, Rm
            (0xebad, _) if to_sp => self.fail("a stack pointer that is computed", at),
            // BL, B.W; conditional B.W
            _ if first >> 11 == 0b11110 && second & 0x8000 != 0 => {
                let (s, j1, j2) = (first >> 10 & 1, second >> 13 & 1, second >> 11 & 1);
                let low = second & 0x7ff;
                let bits = if second & 0x1000 != 0 {
                    let (i1, i2) = (1 ^ j1 ^ s, 1 ^ j2 ^ s);
                    s << 23 | i1 << 22 | i2 << 21 | (first & 0x3ff) << 11 | low
                } else if second & 0x5000 == 0 && first >> 7 & 7 != 7 {
                    let bits = s << 19 | j2 << 18 | j1 << 17 | (first & 0x3f) << 11 | low;
                    if s == 1 { bits | 0xf0_0000 } else { bits }
                } else {
                    return;
                };
                self.jump(at, i64::from((bits << 8) as i32 >> 7), own);
            }
            _ => {}
        }
    }

    /// A call or a jump, counted from two instructions on.
    fn jump(&mut self, at: u64, offset: i64, own: core::ops::Range<u64>) {
        let to = (at + 4).wrapping_add_signed(offset);
        // A jump within the function; but a call of itself would be recursion.
        if to == own.start || !own.contains(&to) {
            self.callees.insert(to);
        }
    }

    fn fail(&mut self, why: &str, at: u64) {
        self.fault = Some(format!("{why} at {at:#x}"));
    }
}

/// The twelve bits of an immediate operand.
fn imm12(first: u32, second: u32) -> u32 {
    (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xff
}

/// The constant that twelve bits stand for.
fn expand(first: u32, second: u32) -> u32 {
    let bits = imm12(first, second);
    let octet = bits & 0xff;
    match bits >> 8 {
        0 => octet,
        1 => octet << 16 | octet,
        2 => octet << 24 | octet << 8,
        3 => octet * 0x0101_0101,
        _ => (octet | 0x80).rotate_right(bits >> 7),
    }
}

/// A function's name as Rust writes it, but for brackets, in which the ways to mangle differ.
fn readable(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol)).replace(['<', '>'], "")
}
