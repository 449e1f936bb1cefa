//! The inputs that are kept for the fuzz targets.
//!
//! ```text
//! fuzz_corpus list            the names of the targets
//! fuzz_corpus write FOLDER    writes each target's inputs into FOLDER/TARGET/
//! fuzz_corpus replay          runs them all, for `make coverage`
//! fuzz_corpus run TARGET FILE runs a file
//! ```

use nanocm_core::testing::fuzz::{TARGETS, Target, corpus};
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["list"] => TARGETS.iter().for_each(|target| println!("{}", target.name)),
        ["write", folder] => TARGETS.iter().try_for_each(|target| write(target, folder))?,
        ["replay"] => TARGETS.iter().try_for_each(replay)?,
        ["run", name, file] => {
            let target = TARGETS.iter().find(|target| target.name == name);
            let target = target.ok_or_else(|| io::Error::other(format!("no target {name}")))?;
            (target.body)(&fs::read(file)?);
        }
        _ => return Err(io::Error::other("fuzz_corpus list|write FOLDER|replay|run TARGET FILE")),
    }
    Ok(())
}

fn write(target: &Target, folder: &str) -> io::Result<()> {
    let folder = Path::new(folder).join(target.name);
    fs::create_dir_all(&folder)?;
    for (name, octets) in corpus::inputs(target)? {
        fs::write(folder.join(name), octets)?;
    }
    Ok(())
}

fn replay(target: &Target) -> io::Result<()> {
    let inputs = corpus::inputs(target)?;
    inputs.iter().for_each(|(_, octets)| (target.body)(octets));
    println!("{}: {} inputs", target.name, inputs.len());
    Ok(())
}
