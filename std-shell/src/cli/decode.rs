//! `nanocm decode`: the CM messages in a capture file, as lines, as JSON or as ladders.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use nanocm::capture::{CaptureError, Found, LeftOut, Messages, Tally, Timestamp};
use nanocm_core::wire::icrc::Integrity;

use super::ladder::{self, Conversations, seconds};
use super::output::{self, Failure, Outcome, Stop, errno};
use super::record;
use super::summary::summary;

/// Print the CM messages in a capture file
///
/// Reads pcap and pcapng files with Ethernet (VLANs too), raw IP or Linux cooked packets, and looks for
/// RoCEv2 datagrams to queue pair 1. Without an option: one line for each message, with the packet's
/// number, the seconds since the first message, the addresses, the message and the fields that matter.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The capture file; - reads standard input
    file: PathBuf,
    /// Print one JSON object for each message
    #[arg(long, conflicts_with = "ladder")]
    pub(crate) json: bool,
    /// Draw each conversation as a ladder, with retransmissions and gaps marked
    #[arg(long)]
    ladder: bool,
}

const EXAMPLES: &str = "\
Examples:
  nanocm decode rping.pcap
  nanocm decode --ladder rping.pcap
  tcpdump -i eth0 -U -w - udp port 4791 | nanocm decode --json -";

pub(crate) fn run(args: &Args) -> Outcome {
    let failed = |error| Stop::from(failure(&args.file, error));
    let mut messages = Messages::open(open(&args.file)?).map_err(failed)?;
    let error = if args.json {
        each(&mut messages, |found| output::print_object(&record::object(&found)))
    } else if args.ladder {
        print_ladders(&mut messages)
    } else {
        print_lines(&mut messages)
    }?;
    for sentence in report(messages.tally(), args.json) {
        output::note(&sentence);
    }
    error.map_or(Ok(()), |error| Err(failed(error)))
}

fn open(path: &Path) -> Result<Box<dyn Read + Send>, Stop> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    match File::open(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => {
            let message = format!("{} can't be opened: {}", path.display(), output::words(&error));
            Err(Failure::new(output::errno_of(&error), "no-file", message).into())
        }
    }
}

fn failure(path: &Path, error: CaptureError) -> Failure {
    let (errno, cause) = match &error {
        CaptureError::Read(error) => (output::errno_of(error), "unreadable"),
        CaptureError::Empty | CaptureError::NotACapture => (errno::EINVAL, "not-a-capture"),
        CaptureError::Link(_) => (errno::EINVAL, "link-type"),
        CaptureError::HeaderCutShort | CaptureError::CutShort { .. } => {
            (errno::EINVAL, "cut-short")
        }
        _ => (errno::EINVAL, "damaged"),
    };
    let name =
        if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
    Failure::new(errno, cause, format!("{name} {error}"))
}

/// Prints every message of a file. The error that ended the file, if one did, comes back.
fn each(
    messages: &mut Messages<'_>,
    mut print: impl FnMut(Found) -> io::Result<()>,
) -> io::Result<Option<CaptureError>> {
    for found in messages {
        match found {
            Ok(found) => print(found)?,
            Err(error) => return Ok(Some(error)),
        }
    }
    Ok(None)
}

fn print_lines(messages: &mut Messages<'_>) -> io::Result<Option<CaptureError>> {
    let mut stdout = anstream::stdout().lock();
    let mut start = None;
    each(messages, |found| {
        let start = start.or(found.time).inspect(|time| start = Some(*time));
        writeln!(stdout, "{}", line(&found, start))
    })
}

fn line(found: &Found, start: Option<Timestamp>) -> String {
    let message = found.message();
    let frame = format!("#{}", found.frame);
    let time = found.time.zip(start).map(|(time, start)| seconds(time.nanoseconds_since(&start)));
    let path = format!("{} → {}", found.source, found.destination);
    let name = message.attribute().to_string();
    let icrc = match found.integrity {
        Integrity::Ok => "",
        Integrity::Bad => " (wrong ICRC)",
        Integrity::Unchecked => " (ICRC not checked)",
    };
    let time = time.unwrap_or_default();
    let texts = summary(&message).join(", ");
    format!("{frame:>6} {time:>11}  {path:<24} {name:<8} {texts}{icrc}").trim_end().into()
}

fn print_ladders(messages: &mut Messages<'_>) -> io::Result<Option<CaptureError>> {
    let mut conversations = Conversations::default();
    let error = each(messages, |found| {
        conversations.add(found);
        Ok(())
    })?;
    let mut stdout = anstream::stdout().lock();
    for (number, conversation) in (1..).zip(conversations.iter()) {
        writeln!(stdout, "{}\n", ladder::draw(number, conversation))?;
    }
    Ok(error)
}

/// What was in the file and what was left out, in sentences. `brief` says only what is out of the
/// ordinary.
fn report(tally: &Tally, brief: bool) -> Vec<String> {
    let headline = (!brief || tally.messages == 0).then(|| headline(tally));
    let left_out = [
        counted(tally.bad_icrc, "message", "has a wrong ICRC", "have a wrong ICRC"),
        counted(tally.cut, "message", "was not captured whole", "were not captured whole"),
        counted(tally.fragments, "IP fragment", "can't be decoded", "can't be decoded"),
        counted(
            tally.unreadable_link,
            "packet",
            "has a link type that can't be decoded",
            "have a link type that can't be decoded",
        ),
        example("faulty datagram to queue pair 1", &tally.faulty),
        example("unknown CM message", &tally.unknown_mads),
    ];
    headline.into_iter().chain(left_out.into_iter().flatten()).collect()
}

fn headline(tally: &Tally) -> String {
    let others = [
        (tally.data, "RDMA data"),
        (tally.other_classes, "other management"),
        (tally.not_roce, "not RoCEv2"),
    ];
    let others: Vec<String> = others
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let others =
        if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    let messages = match tally.messages {
        0 => "no CM message".into(),
        count => plural(count, "CM message"),
    };
    format!("{messages} in {}{others}", plural(tally.packets, "packet"))
}

fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn counted(count: u64, what: &str, one: &str, many: &str) -> Option<String> {
    let verb = if count == 1 { one } else { many };
    (count > 0).then(|| format!("{} {verb}", plural(count, what)))
}

fn example<E: Display>(what: &str, left_out: &LeftOut<E>) -> Option<String> {
    let (packet, reason) = left_out.first.as_ref()?;
    let which = if left_out.count == 1 { "" } else { "the first, " };
    Some(format!("{} left out ({which}packet {packet}: {reason})", plural(left_out.count, what)))
}
