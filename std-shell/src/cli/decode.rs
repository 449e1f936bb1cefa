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
    if let Some(error) = error {
        return Err(failed(error));
    }
    for sentence in report(messages.tally(), args.json) {
        output::note(&sentence);
    }
    Ok(())
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
    let name = match path.to_str() {
        Some("-") => "standard input".into(),
        _ => path.display().to_string(),
    };
    let (errno, cause) = match &error {
        CaptureError::Read(error) => {
            let message = format!("{name} can't be read: {}", output::words(error));
            return Failure::new(output::errno_of(error), "unreadable", message);
        }
        CaptureError::Empty | CaptureError::NotACapture => (errno::EINVAL, "not-a-capture"),
        CaptureError::Link(_) => (errno::EINVAL, "link-type"),
        CaptureError::HeaderCutShort | CaptureError::CutShort { .. } => {
            (errno::EINVAL, "cut-short")
        }
        _ => (errno::EINVAL, "damaged"),
    };
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
        example("faulty CM datagram", &tally.faulty),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(name: &str) -> Vec<u8> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
        std::fs::read(folder.join(name)).unwrap()
    }

    /// All that the program would print of a file.
    fn print_all(file: &[u8]) -> Option<String> {
        let mut messages = Messages::open(file).ok()?;
        let mut conversations = Conversations::default();
        let mut text = String::new();
        for found in messages.by_ref().flatten() {
            text += &line(&found, found.time);
            text += &serde_json::to_string(&record::object(&found)).unwrap();
            conversations.add(found);
        }
        (1..).zip(conversations.iter()).for_each(|(n, c)| text += &ladder::draw(n, c));
        Some(text + &report(messages.tally(), false).concat())
    }

    #[test]
    fn whatever_is_found_can_be_printed() {
        let mut random = 1_u64;
        let mut below = |limit: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % limit
        };
        for name in ["rping-v6.pcap", "rej4-timeout-ari.pcap", "sidr-retransmit.pcap"] {
            let whole = capture(name);
            let printed = (0..300).filter_map(|_| {
                let mut file = whole.clone();
                (0..4).for_each(|_| file[24 + below(whole.len() - 24)] = below(256) as u8);
                print_all(&file)
            });
            assert!(printed.filter(|text| text.contains('─')).count() > 200);
        }
    }

    #[test]
    fn what_was_left_out_is_told_with_an_example() {
        let mut tally = Tally::default();
        assert_eq!(report(&tally, false), ["no CM message in 0 packets"]);
        (tally.packets, tally.messages, tally.data, tally.not_roce) = (7, 1, 3, 2);
        assert_eq!(
            report(&tally, false),
            ["1 CM message in 7 packets (3 RDMA data, 2 not RoCEv2)"]
        );
        assert!(report(&tally, true).is_empty());
        (tally.bad_icrc, tally.fragments, tally.cut) = (2, 1, 1);
        tally.faulty.count = 2;
        tally.faulty.first = Some((5, nanocm_core::wire::roce::FrameFault::Padding(3)));
        assert_eq!(
            report(&tally, true),
            [
                "2 messages have a wrong ICRC",
                "1 message was not captured whole",
                "1 IP fragment can't be decoded",
                "2 faulty CM datagrams left out (the first, packet 5: 3 octets of padding)",
            ]
        );
    }
}
