//! The picture: two columns, an arrow between them for each message, what matters beside it.
//!
//! ```text
//!    #17  0.000000 s  ├──────────── REQ ─────────────▶│  RDMA tcp port 7174, QPN 0x11
//! ```
//!
//! Everything is one row at a time, so that messages can be shown as they travel. Rows carry colours; the
//! stream they are written to removes them where there is no terminal.

use anstyle::{AnsiColor, Style};
use nanocm_core::wire::Attribute;

use super::conversation::Direction;

/// Columns that a row takes at most.
const WIDTH: usize = 100;
/// Where the left line stands; packet number and time are before it.
const LEFT: usize = 21;
/// Columns between the two lines.
const SPAN: usize = 29;
const RIGHT: usize = LEFT + 1 + SPAN;
/// Where the text beside an arrow begins.
const TEXT: usize = RIGHT + 3;

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const MARK: Style = AnsiColor::Yellow.on_default();

/// A text that stands above the ladder.
pub(crate) fn title(text: &str) -> String {
    styled(BOLD, text)
}

/// The columns of a ladder.
pub(crate) struct Ladder {
    left: String,
    right: String,
}

/// A message on its way.
pub(crate) struct Row {
    /// The packet's number, if it has one.
    pub(crate) frame: Option<u64>,
    /// Nanoseconds since the ladder's beginning.
    pub(crate) nanoseconds: Option<i64>,
    pub(crate) direction: Direction,
    pub(crate) attribute: Attribute,
    /// The fields that matter.
    pub(crate) texts: Vec<String>,
    /// What is peculiar about it.
    pub(crate) marks: Vec<String>,
}

impl Ladder {
    /// Between two ends with these names.
    pub(crate) fn new(left: String, right: String) -> Ladder {
        Ladder { left, right }
    }

    /// The names, each above its line; below one another if they are too long for that.
    pub(crate) fn head(&self) -> String {
        if centred(&self.left, LEFT) + width(&self.left) < centred(&self.right, RIGHT) {
            return above_lines(BOLD, &self.left, &self.right);
        }
        let left = above_lines(BOLD, &self.left, "");
        let gap = pad(centred(&self.right, RIGHT) - LEFT - 1);
        format!("{left}\n{}{}{gap}{}", pad(LEFT), styled(DIM, "│"), styled(BOLD, &self.right))
    }

    /// A text below each name.
    pub(crate) fn below_head(&self, left: &str, right: &str) -> String {
        above_lines(DIM, left, right)
    }

    /// The two lines alone.
    pub(crate) fn lines(&self) -> String {
        pad(LEFT) + &lines("│", "")
    }

    /// Something that is not there: a silence, a message that was not captured.
    pub(crate) fn gap(&self, text: &str) -> String {
        pad(LEFT) + &lines("┊", text)
    }

    /// A text below the lines.
    pub(crate) fn note(&self, text: &str) -> String {
        pad(LEFT) + text
    }

    /// An arrow, with what there is to say beside it: in one row if there is room.
    pub(crate) fn message(&self, row: &Row) -> String {
        let mut drawn = gutter(row) + &arrow(row.direction, row.attribute);
        let mut column = RIGHT + 1;
        for (style, word) in beside(row) {
            if column > TEXT && column + 1 + width(&word) > WIDTH {
                drawn += "\n";
                drawn += &self.lines();
                column = RIGHT + 1;
            }
            let space = if column > TEXT { 1 } else { TEXT - column };
            drawn += &pad(space);
            drawn += &styled(style, &word);
            column += space + width(&word);
        }
        drawn
    }
}

/// The fields with commas between them, then the marks in brackets.
fn beside(row: &Row) -> impl Iterator<Item = (Style, String)> {
    let last = row.texts.len().saturating_sub(1);
    let texts = row.texts.iter().enumerate().map(move |(index, text)| {
        let comma = if index < last { "," } else { "" };
        (PLAIN, format!("{text}{comma}"))
    });
    texts.chain(row.marks.iter().map(|mark| (MARK, format!("({mark})"))))
}

fn gutter(row: &Row) -> String {
    let frame = row.frame.map(|frame| format!("#{frame}")).unwrap_or_default();
    let time = row.nanoseconds.map(|time| format!("{} s", seconds(time))).unwrap_or_default();
    styled(DIM, &format!("{frame:>6} {time:>12}  "))
}

/// To the microsecond.
pub(crate) fn seconds(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let micros = nanoseconds.unsigned_abs() / 1_000;
    format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn arrow(direction: Direction, attribute: Attribute) -> String {
    let name = attribute.to_string();
    // The head takes the place of one dash; the name stays in the middle.
    let dashes = SPAN.saturating_sub(width(&name) + 2);
    let (before, after) = (dashes.div_ceil(2), dashes / 2);
    let line = |dashes| "─".repeat(dashes);
    let (from, to) = match direction {
        Direction::ToRight => {
            (format!("├{}", line(before)), format!("{}▶│", line(after.saturating_sub(1))))
        }
        Direction::ToLeft => {
            (format!("│◀{}", line(before.saturating_sub(1))), format!("{}┤", line(after)))
        }
    };
    let name = styled(colour(attribute), &name);
    format!("{} {name} {}", styled(DIM, &from), styled(DIM, &to))
}

/// Making a connection is green, ending it blue, refusing it red.
fn colour(attribute: Attribute) -> Style {
    let colour = match attribute {
        Attribute::REJ => AnsiColor::Red,
        Attribute::MRA => AnsiColor::Yellow,
        Attribute::DREQ | Attribute::DREP => AnsiColor::Blue,
        Attribute::LAP | Attribute::APR => AnsiColor::Magenta,
        _ => AnsiColor::Green,
    };
    colour.on_default().bold()
}

/// Both lines, with a text between them.
fn lines(line: &str, text: &str) -> String {
    styled(DIM, &format!("{line}{text:^SPAN$}{line}"))
}

/// A text above each line.
fn above_lines(style: Style, left: &str, right: &str) -> String {
    let start = centred(left, LEFT);
    let gap = centred(right, RIGHT).saturating_sub(start + width(left));
    let row = format!("{}{}{}{}", pad(start), styled(style, left), pad(gap), styled(style, right));
    row.trim_end().into()
}

/// The column at which a text begins that is to have its middle at `column`.
fn centred(text: &str, column: usize) -> usize {
    column.saturating_sub(width(text) / 2)
}

/// All that is drawn here has one column a character.
fn width(text: &str) -> usize {
    text.chars().count()
}

fn pad(columns: usize) -> String {
    " ".repeat(columns)
}

fn styled(style: Style, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{style}{text}{style:#}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    fn row(texts: &[&str], marks: &[&str]) -> Row {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        Row {
            frame: Some(17),
            nanoseconds: Some(97_928_000),
            direction: Direction::ToRight,
            attribute: Attribute::REQ,
            texts: owned(texts),
            marks: owned(marks),
        }
    }

    #[test]
    fn no_row_is_wider_than_a_hundred_columns() {
        let ladder = Ladder::new("fd00:99::2".into(), "fd00:99::1".into());
        let long = ["x".repeat(30), "y".repeat(30), "z".repeat(13), "a".repeat(45)];
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        let drawn = plain(&ladder.message(&row(&long, &["retransmission, +6.2 s"])));
        assert_eq!(drawn.lines().count(), 4);
        assert!(drawn.lines().all(|line| width(line) <= WIDTH), "{drawn}");
    }

    #[test]
    fn arrows_meet_both_lines_whichever_way_they_go() {
        let ladder = Ladder::new("a".into(), "b".into());
        for direction in [Direction::ToRight, Direction::ToLeft] {
            for attribute in [Attribute::REQ, Attribute::SIDR_REP, Attribute(0x7777)] {
                let row = Row { direction, attribute, ..row(&[], &[]) };
                let drawn: Vec<char> = plain(&ladder.message(&row)).chars().collect();
                assert!("├│".contains(drawn[LEFT]) && "┤│".contains(drawn[RIGHT]));
                assert_eq!(drawn.len(), RIGHT + 1);
            }
        }
    }

    #[test]
    fn long_names_stand_below_one_another() {
        let name = "fd00:1111:2222:3333:4444:5555:6666:7777";
        let head = plain(&Ladder::new(name.into(), name.into()).head());
        let rows: Vec<&str> = head.lines().collect();
        assert_eq!(rows[0].trim(), name);
        assert!(rows[1].trim_start().starts_with('│') && rows[1].ends_with(name));
        assert!(rows.iter().all(|row| width(row) <= WIDTH));
    }
}
