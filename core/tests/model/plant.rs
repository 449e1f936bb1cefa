//! Plants each fault in a copy of the core and lets the model hunt there.

use crate::faults::{FAULTS, Fault};
use crate::{in_parallel, processors};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{env, fs, io};

/// True if every fault is caught.
pub(crate) fn all() -> bool {
    println!("\n{:<64} caught in", "fault");
    let places = Mutex::new(Vec::new());
    for n in 0..processors() {
        let place = scratch().join(n.to_string());
        copy_core(&place).expect("the core can be copied");
        places.lock().expect("nobody panics").push(place);
    }
    let work = |fault: &Fault| {
        let place = places.lock().expect("nobody panics").pop().expect("one for each worker");
        let outcome = try_out(fault, &place);
        places.lock().expect("nobody panics").push(place);
        (fault.what, outcome)
    };
    let outcomes = in_parallel(FAULTS, work, |(what, outcome)| match outcome {
        Ok(caught) => println!("{what:<64} {caught}"),
        Err(problem) => println!("{what:<64} NOT CAUGHT: {problem}"),
    });
    let caught = outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).count();
    println!("{caught} of {} faults caught", FAULTS.len());
    caught == FAULTS.len()
}

/// Where the model caught it, and by what.
fn try_out(fault: &Fault, place: &Path) -> Result<String, String> {
    let file = place.join("core/src").join(fault.file);
    let sound = fs::read_to_string(&file).map_err(|error| error.to_string())?;
    let found = sound.matches(fault.from).count();
    if found != 1 {
        return Err(format!("the text is there {found} times, in {}", fault.file));
    }
    let write = |text: &str| fs::write(&file, text).map_err(|error| error.to_string());
    write(&sound.replace(fault.from, fault.to))?;
    let outcome = hunt(place);
    write(&sound)?;
    outcome
}

fn hunt(place: &Path) -> Result<String, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let run = |more: &[&str]| {
        let what = ["test", "-q", "--offline", "--profile", "planted", "-p", "nanocm-core"];
        Command::new(&cargo)
            .current_dir(place)
            .env("CARGO_TARGET_DIR", place.join("target"))
            .args(what)
            .args(["--test", "model"])
            .args(more)
            .output()
            .map_err(|error| error.to_string())
    };
    let built = run(&["--no-run"])?;
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    let hunted = run(&["--", "hunt"])?;
    let said = String::from_utf8_lossy(&hunted.stdout).into_owned();
    match said.lines().next() {
        Some(caught) if !hunted.status.success() => Ok(caught.chars().take(120).collect()),
        _ if hunted.status.success() => Err("nothing is found".into()),
        _ => Err(String::from_utf8_lossy(&hunted.stderr).into_owned()),
    }
}

/// In the target directory.
fn scratch() -> PathBuf {
    let exe = env::current_exe().expect("it is running");
    // target/<profile>/deps/model-…
    exe.ancestors().nth(3).expect("cargo put it there").join("planted")
}

/// A workspace with nothing but the core; what has not changed is not touched, so that it is not built
/// again.
fn copy_core(place: &Path) -> io::Result<()> {
    let core = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = core.parent().expect("the workspace");
    let workspace = fs::read_to_string(root.join("Cargo.toml"))?;
    let members =
        |line: &&str| !line.contains("members = ") && !line.contains("path = \"std-shell\"");
    let workspace: Vec<_> = workspace.lines().filter(members).collect();
    let profile = "members = [\"core\"]\n";
    let workspace =
        workspace.join("\n").replacen("[workspace]\n", &format!("[workspace]\n{profile}"), 1);
    let planted = "\n[profile.planted]\ninherits = \"dev\"\nopt-level = 1\ndebug = 0\n";
    copy_tree(core, &place.join("core"))?;
    put(&place.join("Cargo.toml"), (workspace + planted).as_bytes())?;
    put(&place.join("Cargo.lock"), &fs::read(root.join("Cargo.lock"))?)
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (here, there) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type()?.is_dir() {
            true => copy_tree(&here, &there)?,
            false => put(&there, &fs::read(here)?)?,
        }
    }
    Ok(())
}

fn put(file: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(file).is_ok_and(|there| there == content) {
        return Ok(());
    }
    fs::write(file, content)
}
