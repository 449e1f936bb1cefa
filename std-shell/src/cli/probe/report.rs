//! What was found, as JSON, as sentences or as Markdown.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::super::output::{Object, print_line, print_object};
use super::conversations::Conversation;
use super::verdict::{Deviation, NO_ANSWER, Verdict};

/// What came of one conversation.
pub(super) struct Probed {
    pub(super) verdict: Verdict,
    /// What was heard.
    pub(super) seen: String,
    pub(super) deviation: Option<Deviation>,
    /// Why it was not tested.
    pub(super) reason: Option<String>,
    pub(super) taken: Duration,
}

impl Probed {
    /// Something that had to come did not.
    pub(super) fn is_without_answer(&self) -> bool {
        self.deviation.as_ref().is_some_and(|deviation| deviation.place == NO_ANSWER)
    }

    /// There was a REJ 8 where that could not be.
    pub(super) fn is_without_listener(&self) -> bool {
        self.deviation.is_some() && self.seen.ends_with("REJ reason 8 (invalid-service-id)")
    }
}

/// How it is told.
pub(super) enum Form {
    Json,
    Sentences,
    /// Under this title.
    Markdown(String),
}

/// Tells it as it comes.
pub(super) struct Report {
    form: Form,
    verdicts: Vec<(&'static str, Verdict)>,
}

impl Report {
    /// Of a probe of this peer, from this address.
    pub(super) fn begin(form: Form, peer: &str, local: SocketAddr) -> io::Result<Report> {
        let from = local.ip();
        match &form {
            Form::Json => {}
            Form::Sentences => print_line(&format!("{peer}, asked from {from}"))?,
            Form::Markdown(title) => {
                print_line(&format!("# {title}\n\n    {}\n", command()))?;
                print_line("| conversation | sent | expected | seen | verdict |")?;
                print_line("|---|---|---|---|---|")?;
            }
        }
        Ok(Report { form, verdicts: Vec::new() })
    }

    pub(super) fn tell(&mut self, what: &Conversation, probed: &Probed) -> io::Result<()> {
        self.verdicts.push((what.name, probed.verdict));
        match self.form {
            Form::Json => print_object(&object(what, probed)),
            Form::Sentences => sentences(what, probed),
            Form::Markdown(_) => print_line(&row(what, probed)),
        }
    }

    /// The sum. `remarks` are about no conversation in particular.
    pub(super) fn end(&self, remarks: &[String], taken: Duration) -> io::Result<()> {
        let counts = Verdict::ALL.map(|verdict| (verdict.name(), self.count(verdict)));
        if let Form::Json = self.form {
            let mut object = Object::new();
            object.insert("event".into(), "SUMMARY".into());
            for (name, count) in counts {
                object.insert(name.into(), count.into());
            }
            object.insert("remarks".into(), remarks.into());
            object.insert("ms".into(), millis(taken).into());
            return print_object(&object);
        }
        let counts: Vec<_> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        print_line(&format!(
            "\n{} conversations in {:.1} s: {}",
            self.verdicts.len(),
            taken.as_secs_f32(),
            counts.join(", ")
        ))?;
        for remark in remarks {
            print_line(&format!("\n{remark}"))?;
        }
        Ok(())
    }

    pub(super) fn count(&self, verdict: Verdict) -> usize {
        self.verdicts.iter().filter(|(_, given)| *given == verdict).count()
    }
}

fn object(what: &Conversation, probed: &Probed) -> Object {
    let mut object = Object::new();
    let mut put = |name: &str, text: &str| {
        object.insert(name.into(), text.into());
    };
    put("event", "PROBED");
    put("name", what.name);
    put("verdict", probed.verdict.name());
    put("sent", what.sent);
    put("expected", what.expected);
    put("seen", &probed.seen);
    if let Some(deviation) = &probed.deviation {
        put("where", &deviation.place);
        put("expected_there", &deviation.expected);
        put("seen_there", &deviation.seen);
    }
    if let Some(reason) = &probed.reason {
        put("reason", reason);
    }
    object.insert("ms".into(), millis(probed.taken).into());
    object
}

fn sentences(what: &Conversation, probed: &Probed) -> io::Result<()> {
    let verdict = probed.verdict.name();
    let seen = probed.reason.as_deref().unwrap_or(&probed.seen);
    print_line(&format!("{verdict:12}  {:26}  {seen}", what.name))?;
    if let Some(deviation) = &probed.deviation {
        print_line(&format!("{:42}sent: {}", "", what.sent))?;
        print_line(&format!("{:42}{}", "", told(deviation)))?;
    }
    Ok(())
}

fn row(what: &Conversation, probed: &Probed) -> String {
    let seen = match (&probed.deviation, &probed.reason) {
        (Some(deviation), _) if probed.seen.is_empty() => told(deviation),
        (Some(deviation), _) => format!("{}; {}", probed.seen, told(deviation)),
        (None, Some(reason)) => reason.clone(),
        (None, None) => probed.seen.clone(),
    };
    let verdict = match probed.verdict {
        Verdict::Deviates => "**deviates**",
        other => other.name(),
    };
    let cells = [what.sent, what.expected, &seen].map(|text| text.replace('|', "\\|"));
    format!("| `{}` | {} | {verdict} |", what.name, cells.join(" | "))
}

fn told(deviation: &Deviation) -> String {
    format!("{}: expected {}, seen {}", deviation.place, deviation.expected, deviation.seen)
}

/// The call of this program, as a shell would take it.
fn command() -> String {
    let words: Vec<_> = std::env::args().skip(1).map(quoted).collect();
    format!("nanocm {}", words.join(" "))
}

fn quoted(word: String) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:%,=".contains(c);
    let is_plain = !word.is_empty() && word.chars().all(plain);
    if is_plain { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_shell_reads_a_quoted_word_as_it_is() {
        for word in ["Linux 6.1", "it's", "''", "", "[fe80::1%eth0]:7", "$HOME \\", "plain"] {
            let echo = format!("printf %s {}", quoted(word.to_owned()));
            let said = std::process::Command::new("sh").args(["-c", &echo]).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), word);
        }
    }
}
