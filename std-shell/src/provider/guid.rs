//! CA GUIDs for hosts without RDMA hardware.
//!
//! A peer tells queue pairs of the same number apart by the CA GUID, and takes a REQ from a known pair
//! for proof that the old connection is dead. So a GUID must be stable over restarts, and different for
//! programs that run at the same time; these have an address or a comm-ID prefix each. Read first: field
//! tests, C7; machine-id(5).

use std::fs;
use std::path::Path;

use nanocm_core::Gid;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// Makes CA GUIDs: equal ones for equal machine, address and prefix.
#[derive(Clone, Debug)]
pub struct Guids {
    key: [u8; 16],
    prefix: (u32, u8),
}

impl Guids {
    /// For programs on this machine that use this comm-ID prefix (value, number of bits).
    pub fn new(comm_id_prefix: (u32, u8)) -> Guids {
        Guids { key: machine_key(Path::new("/")), prefix: comm_id_prefix }
    }

    /// The CA GUID of a local address: locally administered, never 0.
    pub fn guid(&self, address: Gid) -> u64 {
        // The machine ID is the key: it cannot be told from the GUIDs, as machine-id(5) asks.
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(b"nanocm CA GUID");
        hasher.write(&address.0);
        hasher.write(&self.prefix.0.to_be_bytes());
        hasher.write(&[self.prefix.1]);
        hasher.finish() & !GROUP | LOCAL
    }
}

/// EUI-64: this is an identifier of one device, not of a group.
const GROUP: u64 = 0x01 << 56;
/// EUI-64: nobody assigned it.
const LOCAL: u64 = 0x02 << 56;

/// Something that is this machine's alone and survives a restart, or zeros.
fn machine_key(root: &Path) -> [u8; 16] {
    let text = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
    // A container may share its image's machine ID, or have none: its address tells it apart.
    for file in ["etc/machine-id", "var/lib/dbus/machine-id", "sys/class/dmi/id/product_uuid"] {
        let digits = text(file).trim().replace('-', "");
        match u128::from_str_radix(&digits, 16) {
            Ok(id) if id != 0 && digits.len() == 32 => return id.to_be_bytes(),
            _ => {}
        }
    }
    hardware_address(root).unwrap_or_default()
}

/// The first hardware address, in the order of the interfaces' names.
fn hardware_address(root: &Path) -> Option<[u8; 16]> {
    let mut interfaces: Vec<_> = fs::read_dir(root.join("sys/class/net"))
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    interfaces.sort();
    interfaces.iter().find_map(|interface| {
        // One that is permanent (0), neither random nor borrowed.
        let kind = fs::read_to_string(interface.join("addr_assign_type")).ok()?;
        let address = fs::read_to_string(interface.join("address")).ok()?;
        let number = u64::from_str_radix(&address.trim().replace(':', ""), 16).ok()?;
        (number != 0 && kind.trim() == "0").then(|| u128::from(number).to_be_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(ip: &str) -> Gid {
        Gid::from_ip(ip.parse().unwrap())
    }

    #[test]
    fn a_guid_is_stable_locally_administered_and_differs_by_all_that_counts() {
        let machine = |key: u8, prefix| Guids { key: [key; 16], prefix };
        let guid = machine(1, (0, 0)).guid(gid("10.0.0.1"));
        assert_eq!(guid, machine(1, (0, 0)).guid(gid("10.0.0.1")));
        // Peers remember GUIDs over our upgrades: the function must never change.
        assert_eq!(guid, 0xfa7f_8c86_79b0_240e);
        let mut seen = vec![guid];
        for other in [
            machine(2, (0, 0)).guid(gid("10.0.0.1")),
            machine(1, (0, 1)).guid(gid("10.0.0.1")),
            machine(1, (1, 1)).guid(gid("10.0.0.1")),
            machine(1, (0, 0)).guid(gid("10.0.0.2")),
            machine(1, (0, 0)).guid(gid("::a00:1")),
        ] {
            assert!(!seen.contains(&other));
            assert_eq!(other >> 56 & 3, 2);
            seen.push(other);
        }
    }

    #[test]
    fn a_machine_without_an_id_has_other_marks() {
        let root = std::env::temp_dir().join(format!("nanocm-guid-{}", std::process::id()));
        let write = |file: &str, text: &str| {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        assert_eq!(machine_key(&root), [0; 16]);
        write("sys/class/net/lo/address", "00:00:00:00:00:00\n");
        write("sys/class/net/lo/addr_assign_type", "0\n");
        write("sys/class/net/docker0/address", "02:42:00:00:00:09\n");
        write("sys/class/net/docker0/addr_assign_type", "3\n");
        write("sys/class/net/eth0/address", "52:54:00:12:34:56\n");
        write("sys/class/net/eth0/addr_assign_type", "0\n");
        assert_eq!(u128::from_be_bytes(machine_key(&root)), 0x5254_0012_3456);
        write("sys/class/dmi/id/product_uuid", "00112233-4455-6677-8899-aabbccddeeff\n");
        assert_eq!(machine_key(&root)[15], 0xff);
        write("etc/machine-id", "uninitialized\n");
        assert_eq!(machine_key(&root)[15], 0xff);
        write("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
        assert_eq!(machine_key(&root)[15], 0xef);
        fs::remove_dir_all(&root).unwrap();
    }
}
