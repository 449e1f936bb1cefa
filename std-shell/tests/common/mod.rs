//! What several test programs need: a network namespace for a test, where UDP port 4791 is free.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs the rest of a test in a process of its own, in a network namespace of its own (as root, or where
/// unprivileged user namespaces are allowed).
#[macro_export]
macro_rules! isolated {
    () => {
        fn here() {}
        if !$crate::common::is_isolated(std::any::type_name_of_val(&here)) {
            return;
        }
    };
}

const MARK: &str = "NANOCM_TEST_ISOLATED";

/// No test takes so long, wherever it runs.
const LONGEST: Duration = Duration::from_secs(120);

/// True in the namespace. Outside it runs the test there, and panics if it fails. `path` is that of a
/// function within the test.
pub(crate) fn is_isolated(path: &str) -> bool {
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let (_, path) = path.split_once("::").expect("a path in a crate");
    let (name, _) = path.rsplit_once("::").expect("a path in a test");
    let mut again = Command::new(std::env::current_exe().expect("this program"));
    again.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(MARK, "1");
    let told = Output::new(name);
    again.stdin(Stdio::null()).stdout(told.file()).stderr(told.file());
    // SAFETY: the new process has one thread, which calls the system and allocates; glibc's allocator
    // is usable after a fork.
    unsafe { again.pre_exec(nanocm::netns::isolate) };
    let mut child = again.spawn().expect("a process in a network namespace of its own");
    let end = Instant::now() + LONGEST;
    loop {
        if let Some(status) = child.try_wait().expect("its state") {
            let text = told.text();
            // Nor is it well if there is no test of that name.
            let well = status.success() && text.contains("1 passed");
            assert!(well, "{name}, in its namespace:\n{text}");
            return false;
        }
        if Instant::now() > end {
            let _ = child.kill();
            panic!("{name} does not end:\n{}", told.text());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What the process in the namespace says: of interest if it fails.
struct Output(PathBuf);

impl Output {
    fn new(name: &str) -> Output {
        let name = format!("nanocm-test-{}-{}", std::process::id(), name.replace("::", "-"));
        Output(std::env::temp_dir().join(name))
    }

    fn file(&self) -> File {
        File::options().create(true).append(true).open(&self.0).expect("a file for its output")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap_or_default()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Waits until something holds, which it must soon.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "it is not so in the end: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
