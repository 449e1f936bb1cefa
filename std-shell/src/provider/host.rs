//! Whether `udp` and `raw` can work on this host at all.
//!
//! [`judge`] is the table of DESIGN §7 as a pure function; [`HostFacts::read`] finds out what it needs
//! to know. Read first: field tests, R4.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use nanocm_core::Gid;
use nanocm_core::wire::roce::UDP_PORT;

use super::owner::Holder;

/// Exists while the module is loaded.
pub(super) const SOFT_ROCE: &str = "/sys/module/rdma_rxe";

/// What decides whether a socket on UDP port 4791 of one address hears anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HostFacts {
    /// Module rdma_rxe has UDP port 4791 of this network namespace. (It takes it in the initial one, link
    /// or no link; others are free.)
    pub soft_roce: bool,
    /// The RoCEv2 device that has the address in its GID table.
    pub roce_device: Option<String>,
}

/// Why a provider cannot work here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The kernel's Soft-RoCE has the port, and its CM answers.
    SoftRoce,
    /// The address belongs to a RoCE device, which takes UDP port 4791 off the wire before any socket
    /// sees it, and whose CM is the kernel's.
    RoceDevice(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::SoftRoce => f.write_str(
                "the kernel's Soft-RoCE (rdma_rxe) has UDP 4791: two connection managers would answer",
            ),
            Refusal::RoceDevice(name) => write!(
                f,
                "it is on the RoCE device {name}, which takes UDP 4791 before a socket can hear it"
            ),
        }
    }
}

/// Whether `udp` and `raw` can work.
///
/// # Errors
///
/// Why they cannot.
pub fn judge(facts: &HostFacts) -> Result<(), Refusal> {
    match &facts.roce_device {
        // Soft-RoCE's own links are RoCE devices too; name the module, it is what can be unloaded.
        _ if facts.soft_roce => Err(Refusal::SoftRoce),
        Some(device) => Err(Refusal::RoceDevice(device.clone())),
        None => Ok(()),
    }
}

impl HostFacts {
    /// What is true of one local address of this host.
    pub fn read(address: IpAddr) -> HostFacts {
        HostFacts {
            soft_roce: Path::new(SOFT_ROCE).exists() && Holder::of_udp(address, UDP_PORT).kernel,
            roce_device: roce_device(Path::new("/sys/class/infiniband"), address),
        }
    }
}

/// The device with this address among its RoCEv2 GIDs.
fn roce_device(devices: &Path, address: IpAddr) -> Option<String> {
    let gid = Ipv6Addr::from(Gid::from_ip(address).0);
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let text = |file: &Path| fs::read_to_string(file).unwrap_or_default();
    names(devices).into_iter().find(|device| {
        let ports = devices.join(device).join("ports");
        names(&ports).iter().map(|port| ports.join(port)).any(|port| {
            text(&port.join("link_layer")).trim() == "Ethernet"
                && names(&port.join("gids")).iter().any(|index| {
                    let own = text(&port.join("gids").join(index)).trim().parse() == Ok(gid);
                    own && text(&port.join("gid_attrs/types").join(index)).contains("v2")
                })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_hosts() {
        let device = || Some("mlx5_0".to_owned());
        for (soft_roce, roce_device, verdict) in [
            (false, None, Ok(())),
            (true, None, Err(Refusal::SoftRoce)),
            (true, device(), Err(Refusal::SoftRoce)),
            (false, device(), Err(Refusal::RoceDevice("mlx5_0".to_owned()))),
        ] {
            assert_eq!(judge(&HostFacts { soft_roce, roce_device }), verdict);
        }
    }

    #[test]
    fn a_roce_device_is_found_by_its_gid_table() {
        let root = std::env::temp_dir().join(format!("nanocm-host-{}", std::process::id()));
        let gid4 = "0000:0000:0000:0000:0000:ffff:0a63:0001";
        let gid6 = "fd00:0099:0000:0000:0000:0000:0000:0001";
        for (device, layer, index, gid, kind) in [
            ("ib0", "InfiniBand", 0, "fe80:0000:0000:0000:0002:c903:0000:0001", "IB/RoCE v1"),
            ("mlx5_1", "Ethernet", 0, gid4, "IB/RoCE v1"),
            ("mlx5_1", "Ethernet", 1, gid4, "RoCE v2"),
            ("siw0", "Ethernet", 0, gid6, "IB/RoCE v1"),
        ] {
            let port = root.join(device).join("ports/1");
            for folder in ["gids", "gid_attrs/types"] {
                fs::create_dir_all(port.join(folder)).unwrap();
            }
            fs::write(port.join("link_layer"), format!("{layer}\n")).unwrap();
            fs::write(port.join(format!("gids/{index}")), format!("{gid}\n")).unwrap();
            fs::write(port.join(format!("gid_attrs/types/{index}")), format!("{kind}\n")).unwrap();
        }
        let found = |address: &str| roce_device(&root, address.parse().unwrap());
        assert_eq!(found("10.99.0.1").as_deref(), Some("mlx5_1"));
        assert_eq!(found("10.99.0.2"), None);
        assert_eq!(found("fd00:99::1"), None);
        assert_eq!(found("fe80::2:c903:0:1"), None);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found("10.99.0.1"), None);
    }
}
