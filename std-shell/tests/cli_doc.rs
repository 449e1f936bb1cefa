//! `docs/cli.md` against the program: what it says is there, and what is there it says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
    std::fs::read_to_string(path).expect("docs/cli.md")
}

fn nanocm(arguments: &[&str]) -> (Option<i32>, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_nanocm"));
    let output = program.args(arguments).output().expect("the program");
    (output.status.code(), String::from_utf8(output.stdout).expect("text"))
}

/// What a subcommand takes: positional arguments and options with what they stand for.
type Usage = BTreeSet<String>;

/// From the synopsis: the first block of code.
fn written() -> BTreeMap<String, Usage> {
    let document = document();
    let synopsis = document.split("```").nth(1).expect("a block of code");
    let mut all = BTreeMap::new();
    for line in synopsis.lines().filter(|line| !line.is_empty()) {
        let rest = line.strip_prefix("nanocm ").expect("a call of the program");
        let words = if rest.starts_with("ports ") { 2 } else { 1 };
        let (at, _) = rest.match_indices(' ').nth(words - 1).expect("a subcommand with arguments");
        let (name, rest) = (&rest[..at], &rest[at + 1..]);
        // `[--json | --ladder]` are two options; `ADDR[:PORT]` is one value.
        let rest = rest.replace(" | ", "] [").replace("[--", "\n--").replace('\n', "\u{1}");
        let mut usage = Usage::new();
        for (i, part) in rest.split('\u{1}').enumerate() {
            let part = part.trim();
            let part = if i == 0 { part } else { part.strip_suffix(']').expect("a bracket") };
            if !part.is_empty() {
                usage.insert(part.to_owned());
            }
        }
        assert!(all.insert(name.to_owned(), usage).is_none(), "{name} is there twice");
    }
    all
}

/// From `--help`.
fn built() -> BTreeMap<String, Usage> {
    let commands = subcommands(&[]).into_iter().flat_map(|name| match name.as_str() {
        "ports" => subcommands(&["ports"]).iter().map(|sub| format!("ports {sub}")).collect(),
        _ => vec![name],
    });
    commands.map(|name| (name.clone(), usage_of(&name))).collect()
}

fn subcommands(of: &[&str]) -> Vec<String> {
    let (_, help) = nanocm(&[of, &["--help"]].concat());
    let commands = help.split("Commands:\n").nth(1).expect("commands");
    let names = commands.lines().map_while(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

fn usage_of(name: &str) -> Usage {
    let words: Vec<_> = name.split(' ').chain(["--help"]).collect();
    let (code, help) = nanocm(&words);
    assert_eq!(code, Some(0));
    let mut usage = Usage::new();
    for line in help.lines() {
        let line = line.trim_start();
        if line.starts_with("--") {
            let mut words = line.split_whitespace();
            let option = words.next().expect("an option");
            match words.next().filter(|word| word.starts_with('<')) {
                Some(value) => usage.insert(format!("{option} {}", value.trim_matches(['<', '>']))),
                None => usage.insert(option.to_owned()),
            };
        } else if let Some(argument) = line.strip_prefix('<')
            && let Some((argument, rest)) = argument.split_once('>')
        {
            usage.insert(format!("{argument}{}", if rest.starts_with("...") { "..." } else { "" }));
        }
    }
    usage
}

#[test]
fn the_synopsis_is_the_help() {
    assert_eq!(written(), built());
}

/// Between a heading and the next one.
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let (_, section) = document.split_once(&format!("\n## {heading}\n")).expect(heading);
    section.split("\n## ").next().expect("a beginning")
}

/// The rows of a section's tables, as cells.
fn rows(section: &str) -> Vec<Vec<String>> {
    let lines = section.lines().filter(|line| line.starts_with("| ") && !line.contains("---"));
    let cells = |line: &str| {
        let line = line.trim_matches('|').replace("\\|", "\u{1}");
        line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
    };
    lines.map(cells).collect()
}

#[test]
fn the_exit_statuses_are_those_that_happen() {
    let document = document();
    let rows = rows(section(&document, "How it ends"));
    let written: Vec<_> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(written, ["exit status", "0", "1", "2"]);
    assert_eq!(nanocm(&["states"]).0, Some(0));
    assert_eq!(nanocm(&["decode", "/nowhere"]).0, Some(1));
    assert_eq!(nanocm(&["connect", "nowhere"]).0, Some(2));
}

/// In both directions: a cause that the program can name is in the document, and no other.
#[test]
fn the_causes_are_those_in_the_sources() {
    let sources = [
        "failure.rs",
        "output.rs",
        "provider.rs",
        "listen.rs",
        "policy.rs",
        "connect.rs",
        "resolve.rs",
        "decode.rs",
        "demo/mod.rs",
        "probe/mod.rs",
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut text: String = sources
        .iter()
        .map(|name| std::fs::read_to_string(folder.join("cli").join(name)).expect(name))
        .collect();
    for name in ["provider/error.rs", "host_ports/why.rs"] {
        text += &std::fs::read_to_string(folder.join(name)).expect(name);
    }
    let document = document();
    let section = section(&document, "What it prints");
    let table = rows(section).into_iter().skip(1).map(|row| row[0].clone());
    let prose = section.lines().last().expect("a last line").split('`').skip(1).step_by(2);
    let mut written: BTreeSet<_> = table.map(|cell| cell.trim_matches('`').to_owned()).collect();
    written.extend(prose.filter(|word| *word != "decode").map(str::to_owned));
    for cause in &written {
        assert!(text.contains(&format!("\"{cause}\"")), "nobody says {cause}");
    }
    // As the value of a match's arm, beside an errno, or in a call of `Failure::new`.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let arms = text.split("=> \"").skip(1);
    let pairs = text.split("(errno::EINVAL, \"").skip(1);
    let calls = text.split("Failure::new(").skip(1).filter_map(|call| {
        let (before, rest) = call.split_once(", \"")?;
        (!before.contains(';')).then_some(rest)
    });
    for word in arms.chain(pairs).chain(calls).filter_map(|rest| rest.split('"').next()) {
        let is_word = !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        assert!(!is_word || written.contains(word), "{word} is not in docs/cli.md");
    }
}

#[test]
fn the_example_of_an_error_is_one() {
    let document = document();
    let example = document.split("```json\n").nth(1).expect("an example").lines().next().unwrap();
    let value: serde_json::Value = serde_json::from_str(example).expect("JSON");
    assert_eq!(value.to_string(), example);
    assert_eq!((value["error"].as_str(), value["errno"].as_i64()), (Some("EADDRINUSE"), Some(98)));
}
