//! What the targets begin with: seeds made here, inputs that a fuzzer found worth keeping
//! (`fuzz/minimised/`, one file per target), and those that once broke something
//! (`fuzz/findings/`, one file each).

use super::{Target, seeds};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// An input with a name.
pub type Named = (String, Vec<u8>);

/// Every input kept for a target: made, minimised, once a finding.
pub fn inputs(target: &Target) -> io::Result<Vec<Named>> {
    let mut inputs = seeds::of(target.name);
    let packed = packed_path(target);
    if packed.exists() {
        let octets = fs::read(packed)?;
        let kept = unpack(&octets).into_iter().enumerate();
        inputs.extend(kept.map(|(n, octets)| (format!("kept-{n}"), octets.to_vec())));
    }
    let findings = home().join("findings").join(target.name);
    if findings.exists() {
        inputs.extend(files(&findings)?);
    }
    Ok(inputs)
}

/// Every file of a folder, in the order of their names.
pub fn files(folder: &Path) -> io::Result<Vec<Named>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    files.sort();
    Ok(files)
}

/// Where a target's minimised inputs are.
pub fn packed_path(target: &Target) -> PathBuf {
    home().join("minimised").join(target.name).with_extension("bin")
}

/// Several inputs as one file: before each its length, two octets, the high one first. Longer ones
/// than that are left out.
pub fn pack(inputs: &[Named]) -> Vec<u8> {
    let mut packed = Vec::new();
    for (_, octets) in inputs {
        let Ok(length) = u16::try_from(octets.len()) else { continue };
        packed.extend(length.to_be_bytes());
        packed.extend(octets);
    }
    packed
}

/// The inputs of such a file.
pub fn unpack(mut packed: &[u8]) -> Vec<&[u8]> {
    let mut inputs = Vec::new();
    while let Some((length, rest)) = packed.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (octets, rest) = rest.split_at(length);
        inputs.push(octets);
        packed = rest;
    }
    inputs
}

/// The folder of the fuzz targets.
fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}
