use super::*;
use nanocm_core::addr::IbPath;
use nanocm_core::{Gid, Path, RocePath};
use std::net::SocketAddr;

/// The lines between the braces behind `head`.
pub(crate) fn block<'a>(source: &'a str, head: &str) -> &'a str {
    let (_, rest) = source.split_once(head).unwrap_or_else(|| panic!("no {head}"));
    let indent = head.len() - head.trim_start().len();
    let end = format!("\n{}}}", " ".repeat(indent));
    rest.split_once(&end).map_or(rest, |(block, _)| block)
}

/// The variants of an enumeration, from its source.
pub(crate) fn variants<'a>(source: &'a str, head: &str) -> Vec<&'a str> {
    let indent = head.len() - head.trim_start().len() + 4;
    let name = |line: &'a str| {
        let word = line.get(indent..)?;
        let inside = line[..indent].trim().is_empty() && word.starts_with(char::is_uppercase);
        inside.then(|| word.split(|c: char| !c.is_alphanumeric()).next().unwrap_or(word))
    };
    let found: Vec<_> = block(source, head).lines().filter_map(name).collect();
    assert!(!found.is_empty(), "{head}");
    found
}

#[test]
fn nothing_that_the_core_says_is_without_a_name_here() {
    let event = include_str!("../../../core/src/event.rs");
    for (head, here, source) in [
        ("pub enum EventKind", include_str!("event.rs"), event),
        ("pub enum DisconnectCause", include_str!("event.rs"), event),
        ("pub enum PortEvent", include_str!("host.rs"), include_str!("../../../core/src/gids.rs")),
        (
            "pub enum IdOption",
            include_str!("../ops/bind.rs"),
            include_str!("../../../core/src/id/options.rs"),
        ),
        ("pub enum Request", include_str!("host.rs"), include_str!("../../../core/src/request.rs")),
    ] {
        let name = head.rsplit(' ').next().unwrap();
        for variant in variants(source, head) {
            let known = here.contains(&format!("{name}::{variant}"));
            assert!(known, "{name}::{variant} has no name in ffi/src/types");
        }
    }
}

/// Every field of a structure, so that their sizes can be added up.
macro_rules! no_padding {
    ($($Struct:ident { $($field:ident),* $(,)? })*) => {$(
        #[allow(unused)]
        fn $Struct(value: super::$Struct) {
            let super::$Struct { $($field),* } = value;
        }
        let fields = [$({
            fn size<T>(_: fn(&super::$Struct) -> &T) -> usize {
                size_of::<T>()
            }
            size(|value| &value.$field)
        }),*];
        let sum: usize = fields.iter().sum();
        assert_eq!(sum, size_of::<super::$Struct>(), "{}", stringify!($Struct));
    )*};
}

#[test]
#[allow(non_snake_case)]
fn structures_have_no_padding() {
    no_padding! {
        ncm_addr { family, port, scope, ip }
        ncm_path {
            link, scope, local, remote, flow_label, lid, pkey_index, port, sl, traffic_class,
            hop_limit, grh, reserved,
        }
        ncm_port_key { size, space, local, held, reserved }
        ncm_capacity { size, ids, conns, replies, ports, gids, map, reserved }
        ncm_config {
            size, default_backlog, seed, first_retry, put_off, deadline, max_wait, sidr_first_retry, accept_deadline, half_open,
            answers_per_second, half_open_per_source, port_low,
            port_high, comm_id_prefix, comm_id_prefix_bits, loopback_is_wildcard, lenient,
            remote_cm_response_timeout, local_cm_response_timeout, max_cm_retries, target_ack_delay,
            max_path_mtu, passive_retries, check_thread, reserved,
        }
        ncm_conn_param {
            size, qpn, timeout, retries, responder_resources, initiator_depth, retry_count,
            rnr_retry_count, flow_control, srq, transport, qkey, ece_vendor_id, ece_options, reserved,
            private_data, private_data_len,
        }
        ncm_peer_param {
            size, qpn, starting_psn, responder_resources, initiator_depth, retry_count,
            rnr_retry_count, flow_control, srq, transport, reserved, qkey, ece_vendor_id, ece_options,
        }
        ncm_route { size, pkey, mtu, rate, packet_lifetime, reserved, path }
        ncm_qp_attrs {
            size, state, dest_qpn, rq_psn, sq_psn, pkey, remote_read, path_mtu, rate,
            max_dest_rd_atomic, max_rd_atomic, timeout, retry_count, rnr_retry, reserved, qkey, path,
        }
        ncm_event {
            size, kind, id, user, listener, status, value, peer, private_data_len,
            additional_info_len, private_data, additional_info,
        }
        ncm_transmit { size, reserved, token, path }
        ncm_frame { size, seen, token, udp_source_port, ip_id, ip_flags, reserved, path }
        ncm_request { size, kind, id, sequence, reserved, source, destination, path }
        ncm_completion { size, kind, id, sequence, error, route }
        ncm_port_event { size, kind, ca_guid, address }
        ncm_counters {
            size, received, ignored, duplicates, sent, retransmitted, send_failed, no_listener,
            bad_ip_cm_header, bad_primary_path, bad_transport, no_resources, stale, stale_spoofed,
            replies_dropped, farewells_dropped, accept_overdue, established, bad_path_mtu, backlog_full, resolved,
            answers_limited,
        }
    }
}

#[test]
fn addresses_come_back_as_they_went() {
    for addr in ["10.0.0.1:4420", "[fe80::1%3]:7471", "[::]:0", "0.0.0.0:1"] {
        let addr: SocketAddr = addr.parse().unwrap();
        assert_eq!(ncm_addr::from(addr).to_rust(), Ok(addr));
    }
    assert_eq!(ncm_ipv4(10, 0, 0, 1, 4420).to_rust(), Ok("10.0.0.1:4420".parse().unwrap()));
    let octets = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    // SAFETY: 16 octets.
    let v6 = unsafe { ncm_ipv6(octets.as_ptr(), 3, 7471) };
    assert_eq!(v6.to_rust(), Ok("[fe80::1%3]:7471".parse().unwrap()));
    // SAFETY: NULL is checked for.
    let any = unsafe { ncm_ipv6(core::ptr::null(), 0, 5) };
    assert_eq!(any.to_rust(), Ok("[::]:5".parse().unwrap()));
    for family in [0, 1, 2, 5, 10, u16::MAX] {
        assert_eq!(
            ncm_addr { family, ..ncm_ipv4(1, 2, 3, 4, 5) }.to_rust(),
            Err(NCM_INVALID_VALUE)
        );
    }
}

#[test]
fn paths_come_back_as_they_went() {
    let gid = |last| Gid::from_ip([10, 0, 0, last].into());
    let mut roce = RocePath::new(gid(1), gid(2));
    (roce.traffic_class, roce.flow_label, roce.hop_limit) = (104, 0xf_ffff, 3);
    let mut ib = IbPath::default();
    (ib.local, ib.remote, ib.lid, ib.pkey_index) = (gid(3), Gid([7; 16]), 0xc001, 5);
    (ib.flow_label, ib.port, ib.sl, ib.traffic_class) = (9, 2, 4, 6);
    (ib.hop_limit, ib.grh) = (8, true);
    for path in [Path::Roce(roce), Path::Ib(ib)] {
        assert_eq!(ncm_path::from(path).to_rust(), Ok(path));
    }
    let good = ncm_path::from(Path::Ib(ib));
    let wrong = |change: fn(&mut ncm_path)| {
        let mut path = good;
        change(&mut path);
        path.to_rust()
    };
    assert_eq!(wrong(|path| path.link = 0), Err(NCM_INVALID_VALUE));
    assert_eq!(wrong(|path| path.link = 3), Err(NCM_INVALID_VALUE));
    assert_eq!(wrong(|path| path.grh = 2), Err(NCM_INVALID_VALUE));
    assert_eq!(wrong(|path| path.flow_label = 1 << 20), Err(NCM_INVALID_VALUE));
    assert_eq!(wrong(|path| path.reserved[10] = 1), Err(NCM_UNKNOWN_FIELDS));
    assert_eq!(wrong(|path| path.link = 1), Err(NCM_FAMILY_MISMATCH));
}

#[test]
fn the_config_comes_back_as_it_went() {
    let mut config = nanocm_core::Config::new(0x5eed);
    config.comm_id_prefix = (5, 3);
    config.port_range = (1000, 2000);
    config.lenient = true;
    config.loopback_is_wildcard = true;
    config.max_cm_retries = 1;
    config.target_ack_delay = 2;
    config.remote_cm_response_timeout = 3;
    config.local_cm_response_timeout = 4;
    config.default_backlog = 5;
    config.max_path_mtu = 4;
    config.half_open = 6;
    config.half_open_per_source = 7;
    config.answers_per_second = 8;
    config.passive_retries = 9;
    config.timers.put_off = core::time::Duration::from_secs(8);
    config.timers.sidr_first_retry = core::time::Duration::from_secs(9);
    let back = ncm_config::from(config).to_rust().unwrap();
    // `Debug` shows all but the seed.
    assert_eq!(format!("{back:?}"), format!("{config:?}"));
    assert_eq!(back.seed, config.seed);
}
