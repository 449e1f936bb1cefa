//! Who holds UDP port 4791: from /proc, as far as it tells.
//!
//! Read first: field tests, D1 and H7; proc_pid_net(5).

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::host::SOFT_ROCE;

/// Who holds a port. Any part may be unknown: other users' processes are hidden, and a socket of the
/// kernel has no process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holder {
    /// The process.
    pub pid: Option<u32>,
    /// The process's name.
    pub name: Option<String>,
    /// The socket's user.
    pub uid: Option<u32>,
    /// Whether it is the kernel's Soft-RoCE.
    pub kernel: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.uid) {
            (Holder { kernel: true, .. }, _) => f.write_str("the kernel's Soft-RoCE"),
            (Holder { pid: Some(pid), name, .. }, _) => {
                write!(f, "{} (pid {pid})", name.as_deref().unwrap_or("a program"))
            }
            (_, Some(uid)) => write!(f, "a program of user {uid}"),
            (_, None) => f.write_str("a program that the system does not name"),
        }
    }
}

impl Holder {
    /// This process itself.
    pub(super) fn this_process() -> Holder {
        let pid = std::process::id();
        Holder { name: process_name(Path::new("/proc"), pid), pid: Some(pid), ..Holder::default() }
    }

    /// A process by its number.
    pub(crate) fn of_process(pid: u32, uid: Option<u32>) -> Holder {
        let name = process_name(Path::new("/proc"), pid);
        Holder { pid: Some(pid), name, uid, kernel: false }
    }

    /// Who has the socket with this inode.
    pub(crate) fn of_socket(inode: u64, uid: u32) -> Holder {
        let root = Path::new("/proc");
        let pid = if inode == 0 { None } else { find_process(root, inode) };
        let name = pid.and_then(|pid| process_name(root, pid));
        Holder { pid, name, uid: Some(uid), kernel: false }
    }

    /// Who holds UDP `port` on `address`, or on a wildcard that covers it, in this thread's network
    /// namespace.
    pub fn of_udp(address: IpAddr, port: u16) -> Holder {
        Holder::find(Path::new("/proc"), Path::new(SOFT_ROCE).exists(), address, port)
    }

    fn find(proc: &Path, soft_roce: bool, address: IpAddr, port: u16) -> Holder {
        let Some(socket) = find_socket(proc, address, port) else { return Holder::default() };
        let mut holder = Holder { uid: Some(socket.uid), ..Holder::default() };
        if let Some(pid) = find_process(proc, socket.inode) {
            holder.name = process_name(proc, pid);
            holder.pid = Some(pid);
        } else {
            // The module's sockets are the kernel's own: wildcards, without a process.
            holder.kernel = soft_roce && socket.wildcard && socket.uid == 0;
        }
        holder
    }
}

struct UdpSocket {
    inode: u64,
    uid: u32,
    wildcard: bool,
}

/// The socket that is in the way of a bind.
fn find_socket(root: &Path, address: IpAddr, port: u16) -> Option<UdpSocket> {
    // The thread's own view: threads may live in namespaces of their own.
    let net = root.join("thread-self/net");
    let tables = ["udp", "udp6"].map(|table| fs::read_to_string(net.join(table)));
    let lines = tables.iter().flatten().flat_map(|table| table.lines().skip(1));
    let sockets = lines.filter_map(|line| parse_line(line, address, port));
    // The most specific one: wildcards come last.
    sockets.min_by_key(|socket| socket.wildcard)
}

/// A line of /proc/net/udp or udp6: `sl local:port remote:port st queues timer retrnsmt uid timeout
/// inode …`.
fn parse_line(line: &str, address: IpAddr, port: u16) -> Option<UdpSocket> {
    let mut fields = line.split_ascii_whitespace();
    let (local, local_port) = fields.nth(1)?.split_once(':')?;
    if u16::from_str_radix(local_port, 16).ok()? != port {
        return None;
    }
    let local = parse_hex_address(local)?;
    let wildcard = local.is_unspecified();
    // `::` may take IPv4 too, unless it is V6ONLY, which the table does not say.
    let covers = wildcard && (local.is_ipv6() || address.is_ipv4());
    if !covers && local.to_canonical() != address.to_canonical() {
        return None;
    }
    Some(UdpSocket {
        uid: fields.nth(5)?.parse().ok()?,
        inode: fields.nth(1)?.parse().ok()?,
        wildcard,
    })
}

/// Whether a socket without a process has none: a user sees the descriptors of his own processes alone.
pub(crate) fn may_see_all_processes() -> bool {
    fs::read_dir("/proc/1/fd").is_ok()
}

/// Addresses are printed as 32-bit words in the host's order of octets.
pub(crate) fn parse_hex_address(text: &str) -> Option<IpAddr> {
    let word = |i: usize| {
        let digits = text.get(8 * i..8 * i + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    match text.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let mut octets = [0; 16];
            for (to, from) in octets.as_chunks_mut::<4>().0.iter_mut().zip(words) {
                *to = from;
            }
            Some(IpAddr::V6(Ipv6Addr::from(octets)))
        }
        _ => None,
    }
}

/// The process that has a descriptor of the socket with this inode.
fn find_process(root: &Path, inode: u64) -> Option<u32> {
    let link = format!("socket:[{inode}]");
    let processes = fs::read_dir(root).ok()?.flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|pid| {
        let Ok(descriptors) = fs::read_dir(root.join(pid.to_string()).join("fd")) else {
            return false;
        };
        descriptors
            .flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == Path::new(&link)))
    })
}

fn process_name(root: &Path, pid: u32) -> Option<String> {
    let name = fs::read_to_string(root.join(pid.to_string()).join("comm")).ok()?;
    Some(name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "  1149: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 21846 2 0000000000000000 0";
    const ANY4: &str = "   11: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 777 2 0000000000000000 0";
    const V6: &str = "  200: 00000000000000000000000001000000:12B7 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     7        0 4711 2 0000000000000000 0";
    const ANY6: &str = "  200: 00000000000000000000000000000000:12B7 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9 2 0000000000000000 0";

    #[test]
    #[cfg(target_endian = "little")]
    fn lines_of_proc_net_udp_are_read() {
        for (line, address, found) in [
            (V4, "127.0.0.1", Some((21_846, 1000, false))),
            (V4, "::ffff:127.0.0.1", Some((21_846, 1000, false))),
            (V4, "127.0.0.2", None),
            (V4, "::1", None),
            (ANY4, "10.0.0.1", Some((777, 0, true))),
            (ANY4, "::1", None),
            (V6, "::1", Some((4711, 7, false))),
            (V6, "::2", None),
            (ANY6, "fd00::1", Some((9, 0, true))),
            (ANY6, "10.0.0.1", Some((9, 0, true))),
            ("", "10.0.0.1", None),
            ("1: zz:12B7 x", "10.0.0.1", None),
            (&V4[..90], "127.0.0.1", None),
        ] {
            let socket = parse_line(line, address.parse().unwrap(), 4791);
            let socket = socket.map(|s| (s.inode, s.uid, s.wildcard));
            assert_eq!(socket, found, "{line} {address}");
        }
        assert!(parse_line(V4, "127.0.0.1".parse().unwrap(), 4792).is_none());
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_holder_is_named_as_far_as_the_system_tells() {
        let proc = std::env::temp_dir().join(format!("nanocm-proc-{}", std::process::id()));
        fs::create_dir_all(proc.join("thread-self/net")).unwrap();
        fs::create_dir_all(proc.join("123/fd")).unwrap();
        fs::write(proc.join("123/comm"), "nanocm\n").unwrap();
        std::os::unix::fs::symlink("socket:[21846]", proc.join("123/fd/3")).unwrap();
        let table = format!("header\n{V4}\n{ANY4}\n");
        fs::write(proc.join("thread-self/net/udp"), table).unwrap();
        let says = |address: &str, soft_roce| {
            Holder::find(&proc, soft_roce, address.parse().unwrap(), 4791).to_string()
        };
        assert_eq!(says("127.0.0.1", true), "nanocm (pid 123)");
        assert_eq!(says("10.0.0.1", true), "the kernel's Soft-RoCE");
        assert_eq!(says("10.0.0.1", false), "a program of user 0");
        assert_eq!(says("::1", true), "a program that the system does not name");
        fs::remove_dir_all(&proc).unwrap();
        assert_eq!(says("127.0.0.1", true), "a program that the system does not name");
    }

    #[test]
    fn an_own_socket_is_found_with_its_process() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let holder =
            Holder::of_udp("127.0.0.1".parse().unwrap(), socket.local_addr().unwrap().port());
        assert_eq!(holder.pid, Some(std::process::id()));
        assert!(holder.name.is_some() && holder.uid.is_some() && !holder.kernel);
    }
}
