//! What an engine is told once.

use super::{flag, unused};
use crate::ncm_error_code;
use crate::ncm_error_code::*;
use core::time::Duration;
use nanocm_core::Config;

/// How much of everything an engine has room for. Fill it in with ncm_capacity_init.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ncm_capacity {
    /// sizeof(ncm_capacity).
    pub size: u32,
    /// Identifiers, listeners included.
    pub ids: u32,
    /// Connections: one from ncm_resolve_addr or a REQ until it is destroyed. Less than 2^23.
    pub conns: u32,
    /// Answers to strangers that wait to be sent.
    pub replies: u32,
    /// Port records: two for each port and local address in use.
    pub ports: u32,
    /// Local addresses. Less than 65,536.
    pub gids: u32,
    /// Numbers in each port map: how many ports "any free port" may choose from.
    pub map: u32,
    /// Zero.
    pub reserved: u32,
}

/// Settings of an engine. Start from ncm_config_init and change what you must. Durations are in
/// nanoseconds.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ncm_config {
    /// sizeof(ncm_config).
    pub size: u32,
    /// Default backlog of a listener, for ncm_listen with backlog 0. Default 1024.
    pub default_backlog: u32,
    /// Source of every unguessable number: communication IDs, PSNs, port choice. It must never repeat
    /// over reboots: take it from a random generator, or hash a device secret with a boot counter.
    /// With the same seed after a power cut the first REQ carries the same communication ID as before,
    /// and a Linux peer that never saw the old connection end drops it as a duplicate, silently, for
    /// ever.
    pub seed: u64,
    /// Before the first retransmission of a REQ, REP or DREQ; doubled for each further one. Default
    /// 1 s.
    pub first_retry: u64,
    /// While peers take long to answer, retransmissions are put off: those that come due until so long
    /// after a message was first sent. Default 3 s; 0: never.
    pub put_off: u64,
    /// In all, from ncm_connect to UNREACHABLE, unless ncm_conn_param says otherwise; also from
    /// ncm_accept to UNREACHABLE, and from ncm_disconnect to a DISCONNECTED by timeout. Default 30 s.
    pub deadline: u64,
    /// A peer's MRA extends the deadline up to this far from the start, 109 minutes at most. Default
    /// 120 s.
    pub max_wait: u64,
    /// Before the first retransmission of a SIDR_REQ; doubled for each further one. Default 4.096 s:
    /// who answers at once takes a repeated one for another (Linux).
    pub sidr_first_retry: u64,
    /// For the application to accept or reject a request. Then it is rejected. Default 60 s.
    pub accept_deadline: u64,
    /// How many connections may be half open: requests that wait for the application's answer, or for
    /// the peer's RTU. One more is dropped, for its peer to repeat it. Default 0: as many as there is
    /// room for.
    pub half_open: u32,
    /// How many answers a second go to strangers (REJ, DREP, SIDR_REP, APR that no connection owes), and
    /// how many at once after a pause. More are dropped. Default 1000; 0: no limit.
    pub answers_per_second: u32,
    /// As half_open, for each remote address. Addresses are counted in 64 groups, by a keyed hash; those
    /// that fall into one share its limit. Default 0: none.
    pub half_open_per_source: u16,
    /// Port numbers for "any free port", both ends included. Default 32768 to 60999.
    pub port_low: u16,
    /// See `port_low`.
    pub port_high: u16,
    /// Fixed top bits of every communication ID, so that several programs can share a QP1: their
    /// value. Default 0.
    pub comm_id_prefix: u8,
    /// How many bits these are, at most 8. Default 0.
    pub comm_id_prefix_bits: u8,
    /// 1: loopback addresses overlap with every other address, as on InfiniBand devices. Default 0.
    pub loopback_is_wildcard: u8,
    /// 1: accept a REQ whose primary path names another GID than the packet came from, as Linux
    /// does. Default 0: a third party must not be made the target of our answers.
    pub lenient: u8,
    /// Remote CM Response Timeout of our REQs: how long the peer may take for its answer (code: 4.096
    /// us times 2^n). Default 20.
    pub remote_cm_response_timeout: u8,
    /// Local CM Response Timeout of our REQs: after which a Linux peer repeats a lost REP (code).
    /// Default 18.
    pub local_cm_response_timeout: u8,
    /// Max CM Retries of our REQs. Default 15.
    pub max_cm_retries: u8,
    /// Target ACK Delay of our REPs (code). Default 15.
    pub target_ack_delay: u8,
    /// The largest path MTU that our queue pairs take (code: 1 for 256 to 5 for 4096 octets). A REQ with
    /// a larger one, or one that is no path MTU, gets REJ 26, which names ours. Default 5.
    pub max_path_mtu: u8,
    /// How often a REP is repeated, unless `ncm_conn_param.retries` says so; at most 254. Who forges a
    /// REQ in somebody's name must not buy him many. Default 3.
    pub passive_retries: u8,
    /// 1: only the thread that calls ncm_init may use the engine; from others every call is
    /// NCM_WRONG_THREAD. Not in builds without an operating system. Default 0: any thread may, one at
    /// a time.
    pub check_thread: u8,
    /// Zero.
    pub reserved: [u8; 7],
}

impl ncm_config {
    pub(crate) fn to_rust(self) -> Result<Config, ncm_error_code> {
        unused(&self.reserved)?;
        if flag(self.check_thread.into())? && cfg!(not(feature = "std")) {
            return Err(NCM_NOT_SUPPORTED);
        }
        let mut config = Config::new(self.seed);
        config.default_backlog = self.default_backlog;
        config.timers.first_retry = Duration::from_nanos(self.first_retry);
        config.timers.put_off = Duration::from_nanos(self.put_off);
        config.timers.deadline = Duration::from_nanos(self.deadline);
        config.timers.max_wait = Duration::from_nanos(self.max_wait);
        config.timers.sidr_first_retry = Duration::from_nanos(self.sidr_first_retry);
        config.timers.accept_deadline = Duration::from_nanos(self.accept_deadline);
        config.half_open = self.half_open;
        config.half_open_per_source = self.half_open_per_source;
        config.answers_per_second = self.answers_per_second;
        config.passive_retries = self.passive_retries;
        config.port_range = (self.port_low, self.port_high);
        config.comm_id_prefix = (self.comm_id_prefix, self.comm_id_prefix_bits);
        config.loopback_is_wildcard = flag(self.loopback_is_wildcard.into())?;
        config.lenient = flag(self.lenient.into())?;
        config.remote_cm_response_timeout = self.remote_cm_response_timeout;
        config.local_cm_response_timeout = self.local_cm_response_timeout;
        config.max_cm_retries = self.max_cm_retries;
        config.target_ack_delay = self.target_ack_delay;
        config.max_path_mtu = self.max_path_mtu;
        Ok(config)
    }
}

impl From<Config> for ncm_config {
    fn from(config: Config) -> ncm_config {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        ncm_config {
            size: size_of::<ncm_config>() as u32,
            default_backlog: config.default_backlog,
            seed: config.seed,
            first_retry: nanos(config.timers.first_retry),
            put_off: nanos(config.timers.put_off),
            deadline: nanos(config.timers.deadline),
            max_wait: nanos(config.timers.max_wait),
            sidr_first_retry: nanos(config.timers.sidr_first_retry),
            accept_deadline: nanos(config.timers.accept_deadline),
            half_open: config.half_open,
            answers_per_second: config.answers_per_second,
            half_open_per_source: config.half_open_per_source,
            port_low: config.port_range.0,
            port_high: config.port_range.1,
            comm_id_prefix: config.comm_id_prefix.0,
            comm_id_prefix_bits: config.comm_id_prefix.1,
            loopback_is_wildcard: config.loopback_is_wildcard.into(),
            lenient: config.lenient.into(),
            remote_cm_response_timeout: config.remote_cm_response_timeout,
            local_cm_response_timeout: config.local_cm_response_timeout,
            max_cm_retries: config.max_cm_retries,
            target_ack_delay: config.target_ack_delay,
            max_path_mtu: config.max_path_mtu,
            passive_retries: config.passive_retries,
            check_thread: 0,
            reserved: [0; 7],
        }
    }
}
