//! What a conversation may hear, and what is made of it when it hears something else.
//!
//! A field is named as the tables of `nanocm_core::wire` name it; where it stands in the frame follows
//! from them.

use nanocm_core::wire::{Attribute, FieldValue, Header, Mad, View};

/// How a peer's CM did in one conversation. The worst of what it did counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Verdict {
    AsSpecified,
    /// Not what the specification asks for, but what Linux does.
    AsLinux,
    Deviates,
    NotTested,
}

impl Verdict {
    pub(super) const ALL: [Verdict; 4] =
        [Verdict::AsSpecified, Verdict::AsLinux, Verdict::Deviates, Verdict::NotTested];

    pub(super) fn name(self) -> &'static str {
        match self {
            Verdict::AsSpecified => "as-specified",
            Verdict::AsLinux => "as-linux",
            Verdict::Deviates => "deviates",
            Verdict::NotTested => "not-tested",
        }
    }
}

/// Why a conversation ends before its end.
#[derive(Debug)]
pub(super) enum Stop {
    Deviates(Deviation),
    /// For this reason.
    NotTested(String),
    /// By a signal.
    Interrupted,
}

/// The place of what did not come.
pub(super) const NO_ANSWER: &str = "whether it answers";

/// Where the peer did something else than what it may.
#[derive(Debug)]
pub(super) struct Deviation {
    /// The octet and the field, or what of the exchange.
    pub(super) place: String,
    pub(super) expected: String,
    pub(super) seen: String,
}

impl Deviation {
    pub(super) fn stop(
        place: impl Into<String>,
        expected: impl Into<String>,
        seen: impl Into<String>,
    ) -> Stop {
        Stop::Deviates(Deviation {
            place: place.into(),
            expected: expected.into(),
            seen: seen.into(),
        })
    }
}

/// One thing that may follow.
#[derive(Clone, Debug)]
pub(super) struct Want {
    verdict: Verdict,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Silence,
    Message { attribute: Attribute, fields: Vec<(&'static str, u64)> },
}

/// Nothing may follow.
pub(super) fn silence() -> Want {
    Want { verdict: Verdict::AsSpecified, what: What::Silence }
}

/// A message with these values in these fields may follow.
pub(super) fn message(attribute: Attribute, fields: &[(&'static str, u64)]) -> Want {
    let what = What::Message { attribute, fields: fields.to_vec() };
    Want { verdict: Verdict::AsSpecified, what }
}

impl Want {
    /// It is no more than what Linux does.
    pub(super) fn linux(mut self) -> Want {
        self.verdict = Verdict::AsLinux;
        self
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }

    pub(super) fn is_silence(&self) -> bool {
        matches!(self.what, What::Silence)
    }

    pub(super) fn is(&self, wanted: Attribute) -> bool {
        matches!(self.what, What::Message { attribute, .. } if attribute == wanted)
    }

    /// Whether it says this of that field.
    pub(super) fn has(&self, name: &'static str, value: u64) -> bool {
        match &self.what {
            What::Message { fields, .. } => fields.contains(&(name, value)),
            What::Silence => false,
        }
    }

    /// The fields that are not as wanted, of a message of the right kind.
    fn differences(&self, mad: &Mad) -> Vec<(&'static str, u64, u64)> {
        let What::Message { fields, .. } = &self.what else { return Vec::new() };
        let differs = |&(name, wanted): &(&'static str, u64)| {
            let seen = number(mad, name)?;
            (seen != wanted).then_some((name, wanted, seen))
        };
        fields.iter().filter_map(differs).collect()
    }
}

/// "nothing, or REJ with reason 9".
pub(super) fn words(wants: &[Want]) -> String {
    let one = |want: &Want| match &want.what {
        What::Silence => "nothing".to_owned(),
        What::Message { attribute, fields } => {
            let told = fields.iter().filter(|(name, _)| matches!(*name, "reason" | "status"));
            let told: Vec<_> = told.map(|(name, value)| format!("{name} {value}")).collect();
            let with = if told.is_empty() { "" } else { " with " };
            format!("{attribute}{with}{}", told.join(", "))
        }
    };
    wants.iter().map(one).collect::<Vec<_>>().join(", or ")
}

/// Which of the wants a message is, or what is wrong with it.
pub(super) fn judge(mad: &Mad, wants: &[Want]) -> Result<Verdict, Stop> {
    let attribute = Header(mad).attribute();
    let same: Vec<_> = wants.iter().filter(|want| want.is(attribute)).collect();
    let Some(nearest) = same.iter().min_by_key(|want| want.differences(mad).len()) else {
        return Err(Deviation::stop("which message it is", words(wants), told(mad)));
    };
    match nearest.differences(mad).first() {
        None => Ok(nearest.verdict),
        Some(&(name, wanted, seen)) => {
            let digits = digits(mad, name);
            // What the other wants would have had there.
            let mut others: Vec<_> = Vec::new();
            for want in &same {
                if let What::Message { fields, .. } = &want.what {
                    others.extend(fields.iter().filter(|f| f.0 == name).map(|f| f.1));
                }
            }
            others.dedup();
            let expected = if others.len() > 1 {
                others.iter().map(|value| shown(*value, digits)).collect::<Vec<_>>().join(" or ")
            } else {
                shown(wanted, digits)
            };
            Err(Deviation::stop(place(mad, name), expected, shown(seen, digits)))
        }
    }
}

/// Reserved fields that are not zero.
pub(super) fn reserved(mad: &Mad) -> Result<(), Stop> {
    let mut at = 0;
    for (name, value) in View::new(mad).fields() {
        if let FieldValue::Reserved { value: seen @ 1.., .. } = value {
            let place = format!("{}, {name}", octet(at));
            return Err(Deviation::stop(place, "0", format!("{seen:#x}")));
        }
        at += width(&value);
    }
    Ok(())
}

/// The value of a field, if the message has it and it is a number.
pub(super) fn number(mad: &Mad, name: &str) -> Option<u64> {
    match find(mad, name)?.1 {
        FieldValue::Number { value, .. } | FieldValue::Code { value, .. } => Some(value),
        _ => None,
    }
}

/// A field, and how many bits are before it. Of two with that name (status) it is the message's own, not
/// the header's.
fn find<'a>(mad: &'a Mad, name: &str) -> Option<(usize, FieldValue<'a>)> {
    let (mut at, mut found) = (0, None);
    for (field, value) in View::new(mad).fields() {
        if field == name {
            found = Some((at, value));
        }
        at += width(&value);
    }
    found
}

/// "MAD octet 34, reason".
pub(super) fn place(mad: &Mad, name: &str) -> String {
    let at = find(mad, name).map_or(0, |(at, _)| at);
    format!("{}, {name}", octet(at))
}

fn octet(bits: usize) -> String {
    format!("MAD octet {}", bits / 8)
}

/// Bits.
fn width(value: &FieldValue<'_>) -> usize {
    match value {
        FieldValue::Reserved { width, .. }
        | FieldValue::Number { width, .. }
        | FieldValue::Code { width, .. } => *width as usize,
        FieldValue::Gid(_) => 128,
        FieldValue::Octets(octets) => 8 * octets.len(),
        _ => 0,
    }
}

fn digits(mad: &Mad, name: &str) -> usize {
    find(mad, name).map_or(0, |(_, value)| width(&value).div_ceil(4))
}

/// Numbers of more than 16 bits in hexadecimal.
fn shown(value: u64, digits: usize) -> String {
    if digits > 4 { format!("{value:#0width$x}", width = digits + 2) } else { value.to_string() }
}

/// A message in a few words: "REJ reason 8 (invalid-service-id)".
pub(super) fn told(mad: &Mad) -> String {
    let attribute = Header(mad).attribute();
    let class = Header(mad).class();
    if class != 7 {
        return format!("a MAD of class {class:#04x}");
    }
    let detail = match attribute {
        Attribute::REJ => "reason",
        Attribute::MRA => "service_timeout",
        Attribute::SIDR_REP => "status",
        Attribute::APR => "ap_status",
        Attribute::CLASS_PORT_INFO => {
            return format!(
                "ClassPortInfo method {:#04x} status {:#06x}",
                Header(mad).method(),
                Header(mad).status()
            );
        }
        _ => return attribute.to_string(),
    };
    let value = find(mad, detail);
    let detail = detail.trim_start_matches("ap_").replace('_', " ");
    value.map_or_else(|| attribute.to_string(), |(_, v)| format!("{attribute} {detail} {v}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nanocm_core::wire::{Rej, RejectReason};

    fn rej() -> Mad {
        let mut mad = [0; 256];
        Rej::emit(&mut mad, 7).set_remote_comm_id(5).set_reason(RejectReason::CONSUMER);
        mad
    }

    fn deviation(result: Result<Verdict, Stop>) -> (String, String, String) {
        match result {
            Err(Stop::Deviates(d)) => (d.place, d.expected, d.seen),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_nearest_of_what_may_follow_counts() {
        let wants = [
            message(Attribute::REJ, &[("remote_comm_id", 5), ("reason", 9)]),
            message(Attribute::REJ, &[("remote_comm_id", 5), ("reason", 28)]).linux(),
        ];
        assert_eq!(judge(&rej(), &wants).unwrap(), Verdict::AsLinux);
        assert_eq!(words(&wants), "REJ with reason 9, or REJ with reason 28");
    }

    #[test]
    fn a_wrong_field_is_named_with_its_octet() {
        let wants = [
            message(Attribute::REJ, &[("transaction_id", 7), ("reason", 9)]),
            message(Attribute::REJ, &[("transaction_id", 7), ("reason", 8)]),
        ];
        let said = deviation(judge(&rej(), &wants));
        assert_eq!(said, ("MAD octet 34, reason".into(), "9 or 8".into(), "28".into()));
        let wants = [message(Attribute::REJ, &[("remote_comm_id", 6)])];
        let said = deviation(judge(&rej(), &wants));
        let ids = ("0x00000006".into(), "0x00000005".into());
        assert_eq!(said, ("MAD octet 28, remote_comm_id".into(), ids.0, ids.1));
    }

    #[test]
    fn another_message_is_named() {
        let said = deviation(judge(&rej(), &[message(Attribute::DREP, &[]), silence()]));
        let seen = "REJ reason 28 (consumer)".to_owned();
        assert_eq!(said, ("which message it is".into(), "DREP, or nothing".into(), seen));
    }

    #[test]
    fn reserved_bits_are_found() {
        let mut mad = rej();
        assert!(reserved(&mad).is_ok());
        mad[24 + 8] |= 1;
        let Err(Stop::Deviates(found)) = reserved(&mad) else { panic!("not found") };
        assert_eq!(found.place, "MAD octet 32, reserved");
    }
}
