//! What the targets begin with: seeds made here, and inputs that once broke something
//! (`fuzz/findings/TARGET/`). What a fuzzer finds worth keeping stays on its machine (`fuzz/corpus/`).

use super::{Target, seeds};
use std::path::Path;
use std::{fs, io};

/// An input with a name.
pub type Named = (String, Vec<u8>);

/// Every input kept for a target.
///
/// # Errors
/// That of the file system.
pub fn inputs(target: &Target) -> io::Result<Vec<Named>> {
    let mut inputs = seeds::of(target.name);
    let findings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/findings").join(target.name);
    if findings.exists() {
        for entry in fs::read_dir(findings)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            inputs.push((name, fs::read(entry.path())?));
        }
    }
    inputs.sort();
    Ok(inputs)
}
