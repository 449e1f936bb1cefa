//! The corpora of the fuzz targets as files and back.
//!
//! ```text
//! fuzz_corpus unpack FOLDER   writes every input kept for a target into FOLDER/TARGET/
//! fuzz_corpus pack FOLDER     packs the files in FOLDER/TARGET/ into fuzz/minimised/TARGET.bin
//! fuzz_corpus replay [TARGET] runs every input kept, for `make coverage`
//! fuzz_corpus run TARGET FILE runs one file
//! fuzz_corpus list            the names of the targets
//! ```

use nanocm_core::testing::fuzz::{TARGETS, Target, corpus};
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["unpack", folder] => TARGETS.iter().try_for_each(|target| unpack(target, folder)),
        ["pack", folder] => TARGETS.iter().try_for_each(|target| pack(target, folder)),
        ["replay"] => TARGETS.iter().try_for_each(replay),
        ["replay", name] => replay(find(name)?),
        ["run", name, file] => {
            (find(name)?.body)(&fs::read(file)?);
            Ok(())
        }
        ["list"] => {
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            Ok(())
        }
        _ => Err(io::Error::other("fuzz_corpus unpack|pack FOLDER, replay, run TARGET FILE, list")),
    }
}

fn find(name: &str) -> io::Result<&'static Target> {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.ok_or_else(|| io::Error::other(format!("no target {name}")))
}

fn unpack(target: &Target, folder: &str) -> io::Result<()> {
    let folder = Path::new(folder).join(target.name);
    fs::create_dir_all(&folder)?;
    for (name, octets) in corpus::inputs(target)? {
        fs::write(folder.join(name), octets)?;
    }
    Ok(())
}

fn pack(target: &Target, folder: &str) -> io::Result<()> {
    let mut inputs = corpus::files(&Path::new(folder).join(target.name))?;
    inputs.sort_by_key(|(_, octets)| octets.len());
    let packed = corpus::pack(&inputs);
    println!("{}: {} inputs, {} octets", target.name, inputs.len(), packed.len());
    let path = corpus::packed_path(target);
    fs::create_dir_all(path.parent().expect("a folder of all targets"))?;
    fs::write(path, packed)
}

fn replay(target: &Target) -> io::Result<()> {
    let inputs = corpus::inputs(target)?;
    for (_, octets) in &inputs {
        (target.body)(octets);
    }
    println!("{}: {} inputs", target.name, inputs.len());
    Ok(())
}
