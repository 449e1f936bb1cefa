//! `states`: the tables that the engine obeys.

use crate::process::run;
use nanocm::core::{conn, id};
use std::fmt::Display;

/// All moves of both tables, as (from, to, why).
fn moves() -> Vec<[String; 3]> {
    fn texts<S: Display>(table: &[(S, S, &str)]) -> Vec<[String; 3]> {
        let text =
            |(from, to, why): &(S, S, &str)| [from.to_string(), to.to_string(), why.to_string()];
        table.iter().map(text).collect()
    }
    [texts(id::TRANSITIONS), texts(conn::TRANSITIONS)].concat()
}

#[test]
fn every_move_has_a_line() {
    let ended = run("states").with(0);
    let mut lines = ended.lines.iter().filter_map(|line| line.strip_prefix("  "));
    for [from, to, why] in moves() {
        let line = lines.next().expect("one line for each");
        let words: Vec<_> = line.splitn(3, "  ").flat_map(|part| part.split(" -> ")).collect();
        assert_eq!(words.first().map(|word| word.trim()), Some(from.as_str()), "{line}");
        assert!(
            line.contains(&format!("-> {to}")) && line.ends_with(&format!("  {why}")),
            "{line}"
        );
    }
    assert_eq!(lines.next(), None);
}

/// A little of the DOT language: graphs of quoted edges with a label.
#[test]
fn the_graphs_are_dot_and_have_the_tables_edges() {
    let ended = run("states --dot").with(0);
    let text = ended.lines.join("\n");
    let mut edges = Vec::new();
    let mut graphs = Vec::new();
    let mut rest = text.as_str();
    while let Some(after) = rest.strip_prefix("digraph ") {
        let (name, body) = after.split_once(" {\n").expect("an opening brace");
        graphs.push(name);
        let (body, after) = body.split_once("\n}").expect("a closing brace");
        edges.extend(body.lines().map(|line| edge(line).unwrap_or_else(|| panic!("{line}"))));
        rest = after.trim_start();
    }
    assert_eq!((rest, graphs.as_slice()), ("", ["identifier", "connection"].as_slice()));
    assert_eq!(edges, moves());
}

/// `"from" -> "to" [label="why"];`
fn edge(line: &str) -> Option<[String; 3]> {
    let (from, rest) = quoted(line.trim_start())?;
    let (to, rest) = quoted(rest.strip_prefix(" -> ")?)?;
    let (why, rest) = quoted(rest.strip_prefix(" [label=")?)?;
    (rest == "];").then(|| [from, to, why].map(str::to_owned))
}

fn quoted(text: &str) -> Option<(&str, &str)> {
    let (inside, rest) = text.strip_prefix('"')?.split_once('"')?;
    (!inside.contains('\\')).then_some((inside, rest))
}
