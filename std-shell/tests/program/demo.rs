//! The demo.

use crate::isolated;
use crate::process::*;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

const CHECKS: usize = 17;

#[track_caller]
fn all_held(ended: &Ended) {
    let checks: Vec<_> = ended.lines.iter().filter(|line| line.starts_with("  ok   ")).collect();
    assert_eq!(checks.len(), CHECKS, "{:#?}", ended.lines);
    assert!(!ended.lines.iter().any(|line| line.contains("FAIL")), "{:#?}", ended.lines);
}

#[test]
fn it_plays_and_checks_itself() {
    isolated!();
    let ended = run("demo").with(0);
    all_held(&ended);
    let has = |part: &str| ended.lines.iter().any(|line| line.contains(part));
    for part in [
        "REQ ",
        "REP ",
        "RTU",
        "DREQ",
        "DREP",
        "REJ ",
        "lost on the way",
        "reason 8",
        "SIDR_REQ ",
        "SIDR_REP ",
    ] {
        assert!(has(part), "{part}: {:#?}", ended.lines);
    }
    assert!(has("127.0.0.1 ---> 127.0.0.2") && has("127.0.0.2 ---> 127.0.0.1"));
}

#[test]
fn its_json_is_one_object_a_line() {
    isolated!();
    let ended = run("demo --json").with(0);
    for event in ended.events() {
        match event["event"].as_str().unwrap() {
            "SCENE" => assert!(event["title"].is_string(), "{event}"),
            "CHECK" => {
                assert_eq!((event["ok"].as_bool(), event["what"].is_string()), (Some(true), true))
            }
            "MESSAGE" => {
                assert!(event["time"].is_f64() && event["lost"].is_boolean(), "{event}");
                for field in ["from", "to", "message", "fields"] {
                    assert!(event[field].is_string(), "{event}");
                }
            }
            _ => panic!("{event}"),
        }
    }
    let count = |name: &str| ended.names().iter().filter(|other| *other == name).count();
    assert_eq!((count("SCENE"), count("CHECK")), (6, CHECKS));
    assert!(count("MESSAGE") >= 19);
}

#[test]
fn a_taken_port_is_told_with_a_way_round() {
    isolated!();
    for address in ["127.0.0.1", "127.0.0.2"] {
        let (listener, _) = listen(&format!("{address}:7471"));
        let error = run("demo --json").failed("EADDRINUSE", "held");
        assert_eq!(error["holder"]["pid"], listener.pid());
        assert!(error["advice"].as_str().unwrap().contains("nanocm demo --isolated"));
        assert!(error["message"].as_str().unwrap().contains(&format!("UDP {address}:4791")));
        all_held(&run("demo --isolated").with(0));
    }
}

/// Without any privilege: as nobody, if we may become nobody.
#[test]
fn isolated_it_needs_no_privileges() {
    let is_root = sh("id -u").trim() == "0";
    if !is_root {
        return all_held(&run("demo --isolated").with(0));
    }
    // Where nobody can reach it, whatever the permissions of the build's directory.
    let program = Copy::new();
    let mut command = Command::new(&program.0);
    all_held(&start_as(command.uid(NOBODY).gid(NOBODY), "demo --isolated").end().with(0));
}

const NOBODY: u32 = 65534;

struct Copy(PathBuf);

impl Copy {
    fn new() -> Copy {
        let path = std::env::temp_dir().join(format!("nanocm-as-nobody-{}", std::process::id()));
        std::fs::copy(env!("CARGO_BIN_EXE_nanocm"), &path).unwrap();
        Copy(path)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
