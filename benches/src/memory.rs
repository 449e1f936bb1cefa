//! RAM and flash: what an engine's memory takes, and what a firmware with a passive responder does.

use crate::report::Report;
use crate::scale::slot_octets;
use nanocm_core::Storage;
use nanocm_core::port::map_words;
use object::{Object as _, ObjectSection as _, SectionFlags, elf};
use std::path::{Path, PathBuf};
use std::process::Command;

const SLOT: usize = 512;
const SMALL_ENGINE: usize = 16 * 1024;
const FLASH: u64 = 40 * 1024;
const TARGET: &str = "thumbv7m-none-eabi";

/// `size_of`, for three sizes.
pub fn ram(report: &mut Report) {
    report.section("RAM (octets, 64-bit)");
    report.at_most("a connection: two slots, five chain heads, a deadline", slot_octets(), SLOT);
    // IDS, CONNS, REPLIES, PORTS, GIDS, MAP_WORDS
    let small = size_of::<Storage<16, 16, 8, 32, 2, { map_words(1_024) }>>();
    report.at_most("16 identifiers, 1,024 ports to choose from", small, SMALL_ENGINE);
    let medium = size_of::<Storage<256, 256, 16, 512, 4, { map_words(4_096) }>>();
    report.info("256 identifiers, 4,096 ports", medium);
    let large = size_of::<Storage<4_096, 4_096, 64, 8_192, 16, { map_words(28_232) }>>();
    report.info("4,096 identifiers, the whole range of 28,232 ports", large);
}

/// Links the passive responder of `footprint/` and weighs it.
pub fn flash(report: &mut Report) {
    report.section("flash (octets): passive responder with ICRC, thumbv7m, opt-level s");
    let program = match build_responder() {
        Ok(program) => program,
        Err(why) => return report.failed("text + rodata", why),
    };
    match Weights::of(&program) {
        Ok(weights) => {
            report.at_most("text + rodata", weights.flash, FLASH);
            report.at_most(".data: no storage in flash", weights.data, 0);
            report.info(".bss: storage for 16 identifiers, all zero bits", weights.bss);
        }
        Err(why) => report.failed("text + rodata", why),
    }
}

pub(crate) fn build_responder() -> Result<PathBuf, String> {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = benches.join("../scripts/target.sh");
    let arguments = Command::new(&script).arg(TARGET).output().map_err(|e| e.to_string())?;
    if !arguments.status.success() {
        return Err(String::from_utf8_lossy(&arguments.stderr).trim().to_owned());
    }
    let arguments = String::from_utf8_lossy(&arguments.stdout).replace('"', "'");
    let target_dir = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => benches.join("../target"),
    };
    let target_dir = target_dir.join("footprint");
    let built = Command::new("cargo")
        .args(arguments.split_whitespace())
        .args(["build", "--quiet", "--release", "--manifest-path"])
        .arg(benches.join("footprint/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir)
        .output()
        .map_err(|e| e.to_string())?;
    if !built.status.success() {
        return Err(format!("cargo build: {}", String::from_utf8_lossy(&built.stderr)));
    }
    Ok(target_dir.join(TARGET).join("release/responder"))
}

/// What a program takes of each kind of memory.
#[derive(Default)]
struct Weights {
    flash: u64,
    data: u64,
    bss: u64,
}

impl Weights {
    fn of(program: &Path) -> Result<Weights, String> {
        let octets = std::fs::read(program).map_err(|e| format!("{}: {e}", program.display()))?;
        let file = object::File::parse(&*octets).map_err(|e| e.to_string())?;
        let mut weights = Weights::default();
        for section in file.sections() {
            let SectionFlags::Elf { sh_flags } = section.flags() else { continue };
            let has = |flag: u32| sh_flags & u64::from(flag) != 0;
            let kind = match (has(elf::SHF_ALLOC), has(elf::SHF_WRITE)) {
                (false, _) => continue,
                (true, false) => &mut weights.flash,
                (true, true) if section.file_range().is_some() => &mut weights.data,
                (true, true) => &mut weights.bss,
            };
            *kind += section.size();
        }
        Ok(weights)
    }
}
