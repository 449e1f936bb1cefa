//! The table that is printed, and whether every budget was kept.

use std::fmt::Display;
use std::time::Instant;

/// Prints lines as they are measured; remembers whether one was over its limit.
#[derive(Default)]
pub struct Report {
    over: Vec<String>,
    section: Option<(String, Instant)>,
}

impl Report {
    /// An empty table.
    pub fn new() -> Report {
        println!("{:<60} {:>10}   {:<10}", "", "measured", "limit");
        Report::default()
    }

    /// Begins a part of the table.
    pub fn section(&mut self, name: &str) {
        self.end_section();
        println!("\n{name}");
        self.section = Some((name.to_owned(), Instant::now()));
    }

    /// A budget: `measured` may not be above `limit`.
    pub fn at_most<T: PartialOrd + Shown>(&mut self, what: &str, measured: T, limit: T) {
        let ok = measured <= limit;
        self.gate(what, &measured, "≤", &limit, ok);
    }

    /// A budget: `measured` may not be below `limit`.
    pub fn at_least<T: PartialOrd + Shown>(&mut self, what: &str, measured: T, limit: T) {
        let ok = measured >= limit;
        self.gate(what, &measured, "≥", &limit, ok);
    }

    /// A number without a limit, to be looked at.
    pub fn info(&mut self, what: &str, measured: impl Shown) {
        println!("  {what:<58} {:>10}", measured.shown());
    }

    /// A remark to the line above.
    pub fn note(&mut self, text: impl Display) {
        println!("      {text}");
    }

    /// A budget that could not be measured: as bad as one that was missed.
    pub fn failed(&mut self, what: &str, why: impl Display) {
        println!("  {what:<58} {:>10}   {why}", "FAILED");
        self.over.push(what.to_owned());
    }

    /// Says how it went. True if every budget was kept.
    pub fn finish(mut self) -> bool {
        self.end_section();
        if self.over.is_empty() {
            println!("\nevery budget kept");
        } else {
            println!("\nOVER BUDGET: {}", self.over.join("; "));
        }
        self.over.is_empty()
    }

    fn gate(&mut self, what: &str, measured: &dyn Shown, sign: &str, limit: &dyn Shown, ok: bool) {
        let verdict = if ok { "ok" } else { "OVER" };
        let (measured, limit) = (measured.shown(), format!("{sign} {}", limit.shown()));
        println!("  {what:<58} {measured:>10}   {limit:<10} {verdict}");
        if !ok {
            self.over.push(what.to_owned());
        }
    }

    fn end_section(&mut self) {
        if let Some((_, since)) = self.section.take() {
            println!("      ({:.1} s)", since.elapsed().as_secs_f32());
        }
    }
}

/// A number as the table shows it.
pub trait Shown {
    /// Its text.
    fn shown(&self) -> String;
}

impl Shown for u64 {
    fn shown(&self) -> String {
        let digits = self.to_string();
        let mut text = String::new();
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        text
    }
}

impl Shown for usize {
    fn shown(&self) -> String {
        (*self as u64).shown()
    }
}

impl Shown for f64 {
    fn shown(&self) -> String {
        format!("{self:.2}")
    }
}

impl Shown for &str {
    fn shown(&self) -> String {
        (*self).to_owned()
    }
}
