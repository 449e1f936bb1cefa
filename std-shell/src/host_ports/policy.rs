//! Where the numbers of RDMA's port spaces come from.

use nanocm_core::PortSpace;

/// Where a number comes from. The third policy, *shared* (one number for a TCP and an RDMA
/// service), takes a socket: [`Id::bind_with`](crate::Id::bind_with),
/// [`Cm::bind_shared`](crate::Cm::bind_shared) and [`Id::host_listener`](crate::Id::host_listener).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PortPolicy {
    /// RDMA has numbers of its own.
    Independent,
    /// The number is held in the host's port space too.
    Host,
}

/// Where "any port" comes from, of numbers that the host holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Ephemeral {
    /// A number that this process knows to be free in both spaces; if the host refuses it, another.
    #[default]
    Bitmap,
    /// What the host gives. The more is held, the longer it searches.
    Host,
}

/// Which policy is for what. A bind may have its own
/// ([`Id::set_port_policy`](crate::Id::set_port_policy)).
///
/// Where the host has no such numbers (`RDMA_PS_IB`, IPoIB, GID addresses, providers whose
/// addresses are not the kernel's), or the device takes them by itself (iWARP over the host's TCP),
/// all are independent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HostPortConfig {
    /// `RDMA_PS_TCP`: listeners, and numbers given explicitly. Default: `Host`.
    pub tcp: PortPolicy,
    /// `RDMA_PS_UDP`, likewise. Default: `Independent`.
    pub udp: PortPolicy,
    /// SDP, whose numbers are TCP's, likewise. Default: `Host`.
    pub sdp: PortPolicy,
    /// Source ports of connections, where any will do. Default: `Independent`: on InfiniBand and
    /// RoCE nothing can collide with them, and each would be one less for the host's own
    /// connections.
    pub active: PortPolicy,
    /// Default: `Bitmap`.
    pub ephemeral: Ephemeral,
    /// The numbers for "any port", both ends included. Default: the host's ephemeral range, without
    /// those in `ip_local_reserved_ports`. A [`Config::port_range`](crate::Config::port_range) of
    /// one's own counts here too.
    pub range: Option<(u16, u16)>,
    /// At most so many numbers of the host's ephemeral range are held at a time: no program's
    /// outgoing connection can have one that is held, on whatever address. (Those in
    /// `ip_local_reserved_ports` don't count.) Default: half of the
    /// range, the odd half, which outgoing connections use last.
    pub host_share: Option<u16>,
}

impl Default for HostPortConfig {
    fn default() -> HostPortConfig {
        HostPortConfig {
            tcp: PortPolicy::Host,
            udp: PortPolicy::Independent,
            sdp: PortPolicy::Host,
            active: PortPolicy::Independent,
            ephemeral: Ephemeral::Bitmap,
            range: None,
            host_share: None,
        }
    }
}

impl HostPortConfig {
    /// One policy for all.
    pub fn all(policy: PortPolicy) -> HostPortConfig {
        let default = HostPortConfig::default();
        HostPortConfig { tcp: policy, udp: policy, sdp: policy, active: policy, ..default }
    }

    /// For a bind in this space; `any_towards_peer`: to any port, of an active identifier.
    pub(crate) fn policy(&self, space: PortSpace, any_towards_peer: bool) -> PortPolicy {
        let policy = match space {
            PortSpace::Tcp => self.tcp,
            PortSpace::Udp => self.udp,
            PortSpace::Sdp => self.sdp,
            _ => PortPolicy::Independent,
        };
        if any_towards_peer && policy == PortPolicy::Host { self.active } else { policy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PortPolicy::{Host, Independent};

    #[test]
    fn each_port_space_has_its_policy() {
        let (default, host) = (HostPortConfig::default(), HostPortConfig::all(Host));
        let independent = HostPortConfig::all(Independent);
        for (space, given, any) in [
            (PortSpace::Tcp, Host, Independent),
            (PortSpace::Sdp, Host, Independent),
            (PortSpace::Udp, Independent, Independent),
            (PortSpace::Ib, Independent, Independent),
            (PortSpace::Ipoib, Independent, Independent),
        ] {
            assert_eq!((default.policy(space, false), default.policy(space, true)), (given, any));
            assert_eq!(independent.policy(space, false), Independent);
            let hosts =
                if matches!(space, PortSpace::Ib | PortSpace::Ipoib) { Independent } else { Host };
            assert_eq!((host.policy(space, false), host.policy(space, true)), (hosts, hosts));
        }
    }
}
