//! What this process holds, where other programs can read it: a socket that is bound and does not
//! listen is in no table of Linux before 6.8, and "bind fails, but ss shows nothing" is hard to
//! explain.
//!
//! A file for each process, locked for as long as it lives: for root `/run/nanocm/PID`, else
//! `$XDG_RUNTIME_DIR/nanocm/PID`, else `/tmp/nanocm-UID/PID`. A line of fixed length for each number, blank
//! when it is free again. Where it cannot be written nothing else suffers.
//!
//! Read first: field tests, H8.

use super::fork::{self, Unforked};
use super::map::Map;
use super::{Number, Space};
use crate::provider::Holder;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Octets of a line, its end included.
const LINE: usize = 96;

/// The file grows by so many.
const CHUNK: usize = 1 << 16;

/// A line of this process's file; blank again when it is dropped.
#[derive(Debug)]
pub(super) struct Line {
    number: Option<u32>,
    /// In a forked child it is the parent's.
    generation: u32,
}

/// One number that some process holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registered {
    /// Which.
    pub number: Number,
    /// By whom.
    pub holder: Holder,
    /// The network namespace: the number of its inode.
    pub namespace: u64,
}

static OWN: Mutex<Own> = Mutex::new(Own::new());

struct Own {
    file: Option<Unforked>,
    failed: bool,
    map: Map,
    lines: u32,
    free: Vec<u32>,
    namespace: u64,
}

impl Line {
    pub(super) fn write(number: &Number) -> Line {
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        let free = if own.is_open() { own.free.pop().or_else(|| own.new_line()) } else { None };
        let line = Line { number: free, generation: fork::generation() };
        let Some(free) = free else { return line };
        let flag = if number.v6_only { " v6only" } else { "" };
        let mut text = [b' '; LINE];
        text[LINE - 1] = b'\n';
        let (space, address) = (number.space.name(), number.address());
        // Longer than any line can be.
        let _ = write!(&mut text[..LINE - 1], "{space} {address} {}{flag}", own.namespace);
        own.map.write(free as usize * LINE, &text);
        line
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let Some(line) = self.number.filter(|_| self.generation == fork::generation()) else {
            return;
        };
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        own.map.write(line as usize * LINE, b" ");
        own.free.push(line);
    }
}

impl Own {
    const fn new() -> Own {
        let free = Vec::new();
        Own { file: None, failed: false, map: Map::empty(), lines: 0, free, namespace: 0 }
    }

    /// Opens it when it is first needed; not again if that fails.
    fn is_open(&mut self) -> bool {
        if self.file.as_ref().is_some_and(|file| file.get().is_none()) {
            // A forked child, where the file is the parent's.
            *self = Own::new();
        }
        if self.file.is_none() && !self.failed {
            self.namespace = namespace();
            self.file = create().inspect_err(|error| log::debug!("no registry: {error}")).ok();
            self.failed = self.file.is_none();
        }
        self.file.is_some()
    }

    fn new_line(&mut self) -> Option<u32> {
        let end = (self.lines as usize + 1) * LINE;
        if end > self.map.len() {
            let file = self.file.as_ref().and_then(Unforked::get)?;
            self.map.grow(file, end.next_multiple_of(CHUNK)).ok()?;
        }
        self.lines += 1;
        Some(self.lines - 1)
    }
}

/// In the first place that can be had.
fn create() -> io::Result<Unforked> {
    let mut refused = io::ErrorKind::NotFound.into();
    for folder in folders() {
        match create_in(&folder) {
            Ok(file) => return Ok(file),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn create_in(folder: &Path) -> io::Result<Unforked> {
    let mode = if uid() == 0 { 0o755 } else { 0o700 };
    match DirBuilder::new().mode(mode).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // In /tmp anybody could have made it.
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != uid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // What earlier processes have left.
    for entry in fs::read_dir(folder)?.flatten() {
        if let Some(pid) = pid_of(&entry)
            && File::open(entry.path()).is_ok_and(|file| is_over(pid, &file))
        {
            let _ = fs::remove_file(entry.path());
        }
    }
    let path = folder.join(std::process::id().to_string());
    Unforked::open(|| {
        // Of an earlier process with this number, if there is one: that is over.
        let _ = fs::remove_file(&path);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(mode & 0o644)
            .open(&path)?;
        // A reader may have it for a moment.
        for _ in 0..50 {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(1)),
                locked => return Ok(locked.map(|()| file.into())?),
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    })
}

fn pid_of(entry: &fs::DirEntry) -> Option<u32> {
    entry.file_name().to_str()?.parse().ok()
}

/// Whether the process whose file this is has ended. (One that is about to lock it has not.)
fn is_over(pid: u32, file: &File) -> bool {
    let unlocked = flock(file, FlockOperation::NonBlockingLockShared).is_ok();
    unlocked && !Path::new("/proc").join(pid.to_string()).exists()
}

/// What all processes hold whose files can be read.
pub fn registered() -> Vec<Registered> {
    let mut folders = folders();
    let roots = PathBuf::from(ROOTS);
    if !folders.contains(&roots) {
        folders.push(roots);
    }
    folders.iter().flat_map(|folder| read_folder(folder)).collect()
}

fn read_folder(folder: &Path) -> Vec<Registered> {
    let mut all = Vec::new();
    // Somebody else's, in /tmp, may say anything.
    let trusted = |found: fs::Metadata| found.is_dir() && [0, uid()].contains(&found.uid());
    if !fs::symlink_metadata(folder).is_ok_and(trusted) {
        return all;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Some((pid, file)) = pid_of(&entry).zip(File::open(entry.path()).ok()) else { continue };
        // Nobody's, though another process may have the number now.
        if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
            continue;
        }
        let mut text = Vec::new();
        let Ok(_) = (&file).read_to_end(&mut text) else { continue };
        // What has not been written yet is zero.
        let text = String::from_utf8_lossy(&text);
        let uid = file.metadata().ok().map(|found| found.uid());
        let holder = Holder::of_process(pid, uid);
        all.extend(text.lines().filter_map(|line| parse(line, &holder)));
    }
    all
}

fn parse(line: &str, holder: &Holder) -> Option<Registered> {
    if line.starts_with([' ', '\0']) {
        return None;
    }
    let mut words = line.split_ascii_whitespace();
    let space = Space::from_name(words.next()?)?;
    let address = words.next()?.parse().ok()?;
    let namespace = words.next()?.parse().ok()?;
    let number = Number::new(space, address, words.next() == Some("v6only"));
    Some(Registered { number, holder: holder.clone(), namespace })
}

/// Of this thread.
pub fn namespace() -> u64 {
    fs::metadata("/proc/thread-self/ns/net").map_or(0, |found| found.ino())
}

const ROOTS: &str = "/run/nanocm";

/// Where it may be, the best first.
fn folders() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let own = own.map(|folder| PathBuf::from(folder).join("nanocm"));
    let roots = (uid() == 0).then(|| PathBuf::from(ROOTS));
    // Root of a user namespace of its own has no /run.
    let last = PathBuf::from(format!("/tmp/nanocm-{}", uid()));
    // Root's own folder nobody else could read.
    roots.into_iter().chain(own).chain([last]).collect()
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
