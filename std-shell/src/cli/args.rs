//! Values that subcommands take: addresses, private data, reject reasons, queue pair numbers.
//!
//! Each function is a clap value parser. Its error says what is wrong and what is accepted; clap puts the
//! argument's name before it and ends the program with 2.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;

use nanocm_core::addr::Gid;
use nanocm_core::wire::RejectReason;

/// An end point: an IP address or a GID, with an RDMA port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    Ip(SocketAddr),
    Gid(Gid, u16),
}

impl Address {
    pub(crate) fn port(&self) -> u16 {
        match self {
            Address::Ip(addr) => addr.port(),
            Address::Gid(_, port) => *port,
        }
    }
}

/// As the command line writes it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(addr) => addr.fmt(f),
            Address::Gid(gid, port) => write!(f, "gid:[{gid}]:{port}"),
        }
    }
}

/// `ADDR:PORT`.
pub(crate) fn address(text: &str) -> Result<Address, String> {
    match parse(text)? {
        (host, Some(port)) => host.with_port(port),
        (_, None) => Err(format!("the port is missing; {FORMS}")),
    }
}

/// `ADDR:PORT` with a port to connect to.
pub(crate) fn peer(text: &str) -> Result<Address, String> {
    match address(text)? {
        peer if peer.port() == 0 => Err("port 0 can't be connected to; it is 1 to 65535".into()),
        peer => Ok(peer),
    }
}

/// `ADDR[:PORT]`; without a port, or with port 0, any port.
pub(crate) fn source(text: &str) -> Result<Address, String> {
    let (host, port) = parse(text)?;
    host.with_port(port.unwrap_or(0))
}

/// Octets of private data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PrivateData(pub(crate) Vec<u8>);

/// Private data as hexadecimal digits.
pub(crate) fn private_data(text: &str) -> Result<PrivateData, String> {
    if let Some(other) = text.chars().find(|c| !c.is_ascii_hexdigit()) {
        return Err(format!(
            "{other:?} is not a hexadecimal digit; private data is written 00ff12…"
        ));
    }
    if !text.len().is_multiple_of(2) {
        return Err(format!("{} digits are no whole octets; each has two", text.len()));
    }
    let octet = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).map_err(|e| e.to_string());
    (0..text.len()).step_by(2).map(octet).collect::<Result<_, _>>().map(PrivateData)
}

/// A reject reason by code or name.
pub(crate) fn reject_reason(text: &str) -> Result<RejectReason, String> {
    let by_code = || text.parse().ok().map(RejectReason).filter(|r| RejectReason::ALL.contains(r));
    RejectReason::from_name(text).or_else(by_code).ok_or_else(|| {
        "it is no reject reason; give a code (1 to 33, or 35) or a name such as consumer, \
         no-resources or invalid-service-id"
            .into()
    })
}

/// A queue pair's number, decimal or hexadecimal; 0 and 1 are every port's own.
pub(crate) fn qpn(text: &str) -> Result<u32, String> {
    let qpn = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let is_number = text.bytes().all(|b| b.is_ascii_alphanumeric());
    qpn.ok().filter(|qpn| is_number && QPNS.contains(qpn)).ok_or_else(|| {
        let (first, last) = (QPNS.start(), QPNS.end());
        format!("it is no queue pair number; it is {first} to {last} ({last:#x})")
    })
}

/// The numbers that queue pairs of programs have.
pub(crate) const QPNS: RangeInclusive<u32> = 2..=0xff_ffff;

const FORMS: &str = "an address is written 1.2.3.4:PORT, [IPv6]:PORT, [fe80::1%eth0]:PORT or \
                     gid:[fe80::2:c903:0:1]:PORT";

/// An address before its port is known.
enum Host<'a> {
    V4(Ipv4Addr),
    V6 { ip: Ipv6Addr, interface: Option<&'a str> },
    Gid(Gid),
}

impl Host<'_> {
    fn with_port(self, port: u16) -> Result<Address, String> {
        Ok(match self {
            Host::V4(ip) => Address::Ip(SocketAddr::new(ip.into(), port)),
            Host::V6 { ip, interface: None } => Address::Ip(SocketAddr::new(ip.into(), port)),
            Host::V6 { ip, interface: Some(name) } => Address::Ip(scoped(ip, name, port)?),
            Host::Gid(gid) => Address::Gid(gid, port),
        })
    }
}

fn parse(text: &str) -> Result<(Host<'_>, Option<u16>), String> {
    if let Some(gid) = text.strip_prefix("gid:") {
        let (inside, port) = bracketed(gid)?;
        return Ok((Host::Gid(Gid(v6(inside)?.octets())), port));
    }
    if text.starts_with('[') {
        let (inside, port) = bracketed(text)?;
        return Ok((host_v6(inside)?, port));
    }
    if text.matches(':').count() > 1 {
        return Ok((host_v6(text)?, None));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, digits)) => (host, Some(self::port(digits)?)),
        None => (text, None),
    };
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => Ok((Host::V4(ip), port)),
        _ => Err(format!("{host:?} is no IP address, and names are not looked up; {FORMS}")),
    }
}

/// `[…]` or `[…]:PORT`.
fn bracketed(text: &str) -> Result<(&str, Option<u16>), String> {
    let inside = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    match inside {
        Some((inside, "")) => Ok((inside, None)),
        Some((inside, rest)) => match rest.strip_prefix(':') {
            Some(digits) => Ok((inside, Some(port(digits)?))),
            None => Err(format!("{rest:?} follows the bracket; {FORMS}")),
        },
        None => Err(format!("the brackets are missing or not closed; {FORMS}")),
    }
}

fn host_v6(text: &str) -> Result<Host<'_>, String> {
    Ok(match text.split_once('%') {
        Some((ip, interface)) => Host::V6 { ip: v6(ip)?, interface: Some(interface) },
        None => Host::V6 { ip: v6(text)?, interface: None },
    })
}

fn v6(text: &str) -> Result<Ipv6Addr, String> {
    text.parse().map_err(|_| format!("{text:?} is no IPv6 address; {FORMS}"))
}

fn port(digits: &str) -> Result<u16, String> {
    match digits.parse() {
        Ok(port) if digits.bytes().all(|b| b.is_ascii_digit()) => Ok(port),
        _ => Err(format!("{digits:?} is no port; it is 0 to 65535")),
    }
}

/// The system knows interfaces by name; it is asked about numeric addresses only.
fn scoped(ip: Ipv6Addr, interface: &str, port: u16) -> Result<SocketAddr, String> {
    if !ip.is_unicast_link_local() {
        return Err(format!("{ip} is not link-local, so no interface belongs to it"));
    }
    let found =
        (format!("{ip}%{interface}"), port).to_socket_addrs().ok().and_then(|mut a| a.next());
    found.ok_or_else(|| format!("there is no network interface {interface:?} here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_print_as_they_are_written() {
        for text in ["1.2.3.4:4420", "[fd00:99::1]:7174", "gid:[fe80::2:c903:0:1]:1", "0.0.0.0:0"] {
            assert_eq!(address(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_interface_becomes_its_number() {
        let Ok(Address::Ip(SocketAddr::V6(addr))) = address("[fe80::1%lo]:1") else {
            panic!("not an IPv6 address");
        };
        assert_ne!(addr.scope_id(), 0);
    }

    #[test]
    fn a_source_needs_no_port() {
        for (text, same) in [
            ("1.2.3.4", "1.2.3.4:0"),
            ("[fd00::1]", "[fd00::1]:0"),
            ("fd00::1", "[fd00::1]:0"),
            ("gid:[fe80::1]", "gid:[fe80::1]:0"),
            ("1.2.3.4:7", "1.2.3.4:7"),
        ] {
            assert_eq!(source(text).unwrap().to_string(), same);
        }
    }

    #[test]
    fn a_bad_address_is_told_with_what_is_accepted() {
        for (text, part) in [
            ("localhost:1", "names are not looked up"),
            ("1.2.3:1", "no IP address"),
            ("1.2.3.4", "the port is missing"),
            ("1.2.3.4:", "no port"),
            ("1.2.3.4:65536", "0 to 65535"),
            ("1.2.3.4:+1", "no port"),
            ("[fd00::1:1", "brackets"),
            ("[fd00::g]:1", "no IPv6 address"),
            ("[fd00::1]1", "follows the bracket"),
            ("fd00::1", "the port is missing"),
            ("gid:fe80::1:1", "brackets"),
            ("gid:[fe80::1%lo]:1", "no IPv6 address"),
            ("[fe80::1%no-such-0]:1", "no network interface"),
            ("[fd00::1%lo]:1", "not link-local"),
            ("", "no IP address"),
        ] {
            let error = address(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(peer("1.2.3.4:0").unwrap_err().contains("port 0"));
    }

    #[test]
    fn private_data_is_hexadecimal() {
        assert_eq!(private_data("00fF10").unwrap().0, [0, 0xff, 0x10]);
        assert!(private_data("").unwrap().0.is_empty());
        assert!(private_data("0x12").unwrap_err().contains("'x'"));
        assert!(private_data("é0").unwrap_err().contains("'é'"));
        assert!(private_data("123").unwrap_err().contains("3 digits"));
    }

    #[test]
    fn a_queue_pair_number_has_24_bits() {
        for (text, number) in
            [("2", 2), ("0x2a", 42), ("16777215", 0xff_ffff), ("0xFFFFFF", 0xff_ffff)]
        {
            assert_eq!(qpn(text), Ok(number));
        }
        for wrong in ["0", "1", "16777216", "0x1000000", "-2", "+2", "0x+2", "0x", "2a", ""] {
            assert!(qpn(wrong).unwrap_err().contains("2 to 16777215 (0xffffff)"), "{wrong}");
        }
    }

    #[test]
    fn a_reject_reason_has_a_code_or_a_name() {
        assert_eq!(reject_reason("28").unwrap(), RejectReason::CONSUMER);
        assert_eq!(reject_reason("consumer").unwrap(), RejectReason::CONSUMER);
        assert_eq!(reject_reason("35").unwrap(), RejectReason::VENDOR_OPTION_NOT_SUPPORTED);
        for wrong in ["0", "34", "36", "65536", "-1", "Consumer", "nonsense", ""] {
            assert!(reject_reason(wrong).unwrap_err().contains("1 to 33"), "{wrong}");
        }
    }
}
