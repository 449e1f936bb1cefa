//! Empty storage is all zero bits, so a `static` engine lies in .bss and costs no flash: this
//! program looks at where its own linker put one.
#![cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]

use nanocm_core::port::map_words;
use nanocm_core::{Cm, Config, Storage};
use std::sync::Mutex;

type Firmware = Storage<16, 16, 8, 32, 2, { map_words(1024) }>;

static EMPTY_STORAGE: Mutex<Firmware> = Mutex::new(Storage::new());
/// What the test would say of storage that is not all zero.
static OTHER_STORAGE: Mutex<(Firmware, u8)> = Mutex::new((Storage::new(), 1));

#[test]
fn a_static_storage_needs_no_initial_values() {
    let mut storage = EMPTY_STORAGE.lock().unwrap();
    let mut config = Config::new(1);
    config.port_range = (49_152, 50_175);
    assert!(Cm::new(storage.parts(), config).unwrap().is_clean());
    assert_eq!(OTHER_STORAGE.lock().unwrap().1, 1);
    let program = Elf(std::fs::read("/proc/self/exe").unwrap());
    let (empty, other) = (program.symbol("EMPTY_STORAGE"), program.symbol("OTHER_STORAGE"));
    assert!(empty.size >= size_of::<Firmware>() && other.size > size_of::<Firmware>());
    assert!(empty.in_bss, "an EMPTY constant has a bit set");
    assert!(!other.in_bss, "this test could not tell");
}

/// As much of an ELF file as it takes.
struct Elf(Vec<u8>);

struct Symbol {
    size: usize,
    in_bss: bool,
}

impl Elf {
    fn number(&self, at: usize, octets: usize) -> usize {
        let octets = &self.0[at..at + octets];
        octets.iter().rev().fold(0, |number, &octet| number << 8 | usize::from(octet))
    }

    /// Where a section header is.
    fn section(&self, index: usize) -> usize {
        self.number(0x28, 8) + index * self.number(0x3a, 2)
    }

    /// A section's kind and contents.
    fn contents(&self, index: usize) -> (usize, std::ops::Range<usize>) {
        let header = self.section(index);
        let (at, len) = (self.number(header + 0x18, 8), self.number(header + 0x20, 8));
        (self.number(header + 4, 4), at..at + len)
    }

    /// The data symbol whose mangled name has this in it.
    fn symbol(&self, name: &str) -> Symbol {
        const SYMTAB: usize = 2;
        const NOBITS: usize = 8;
        let tables = (0..self.number(0x3c, 2)).filter(|&i| self.contents(i).0 == SYMTAB);
        for table in tables {
            let (_, symbols) = self.contents(table);
            let (_, names) = self.contents(self.number(self.section(table) + 0x28, 4));
            for symbol in symbols.step_by(24) {
                let at = names.start + self.number(symbol, 4);
                let end = at + self.0[at..].iter().position(|&octet| octet == 0).unwrap();
                let size = self.number(symbol + 16, 8);
                if size > 0 && String::from_utf8_lossy(&self.0[at..end]).contains(name) {
                    let home = self.number(symbol + 6, 2);
                    return Symbol { size, in_bss: self.contents(home).0 == NOBITS };
                }
            }
        }
        panic!("{name} is not in the symbol table");
    }
}
