//! What an engine is told once, at construction.

use core::fmt;
use core::time::Duration;

/// Settings of an engine. Start from [`Config::new`] and change what you must.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Config {
    /// Source of every unguessable number: communication IDs, PSNs, port choice.
    ///
    /// It has no default and **must never repeat over reboots**: take it from a random generator, or
    /// hash a device secret with a boot counter. With the same seed after a power cut the first REQ
    /// carries the same communication ID as before, and a Linux peer that never saw the old
    /// connection end drops it as a duplicate, silently, for ever.
    pub seed: u64,
    /// Fixed top bits of every communication ID (value, number of bits ≤ 8), so that one day several
    /// programs can share a QP1. Default: none.
    pub comm_id_prefix: (u8, u8),
    /// Port numbers for "any free port", both ends included. Default: 32768–60999.
    pub port_range: (u16, u16),
    /// Whether loopback addresses overlap with every other address, as on InfiniBand devices, which
    /// do not own them. Default: no; over sockets they are ordinary specific addresses.
    pub loopback_is_wildcard: bool,
    /// Timers of the connection protocol.
    pub timers: Timers,
    /// Accept a REQ whose primary path names another GID than the packet came from, and answer to
    /// the GID it names, as Linux does; further messages may come from anywhere, their communication
    /// IDs vouch for them. Default: no, REJ 12: a third party must not be made the target of our
    /// answers.
    pub lenient: bool,
    /// Remote CM Response Timeout of our REQs: how long the peer may take for its answer (code).
    /// Default 20 (4.3 s).
    pub remote_cm_response_timeout: u8,
    /// Local CM Response Timeout of our REQs: after which a Linux peer repeats a lost REP (code).
    /// Default 18 (1.07 s).
    pub local_cm_response_timeout: u8,
    /// Max CM Retries of our REQs. Default 15.
    pub max_cm_retries: u8,
    /// Target ACK Delay of our REPs (code). Default 15 (134 ms).
    pub target_ack_delay: u8,
    /// The largest path MTU that our queue pairs take (code: 1 = 256 … 5 = 4096 octets). A REQ with a
    /// larger one, or one that is no path MTU, gets REJ 26, which names ours. Default 5.
    pub max_path_mtu: u8,
    /// Default backlog of a listener, for `listen` with backlog 0. Default 1024.
    pub default_backlog: u32,
    /// How many connections may be half open: requests that wait for the application's answer, or
    /// for the peer's RTU. One more is dropped, for its peer to repeat it. Default 0: as many as there
    /// is room for.
    pub half_open: u32,
    /// The same for each remote address. Addresses are counted in 64 groups, by a keyed hash; those
    /// that fall into one share its limit. Default 0: none.
    pub half_open_per_source: u16,
    /// How many answers a second go to strangers (REJ, DREP, SIDR_REP, APR that no connection owes),
    /// and how many at once after a pause. More are dropped. Default 1000; 0: no limit.
    pub answers_per_second: u32,
    /// How often a REP is repeated, unless `ConnParam::retries` says so (254 at most), or the REQ's Max CM
    /// Retries says 2 or less. Who forges a REQ in somebody's name must not buy him many. Default 3.
    pub passive_retries: u8,
}

/// All but the seed, which is a secret.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("comm_id_prefix", &self.comm_id_prefix)
            .field("port_range", &self.port_range)
            .field("loopback_is_wildcard", &self.loopback_is_wildcard)
            .field("timers", &self.timers)
            .field("lenient", &self.lenient)
            .field("remote_cm_response_timeout", &self.remote_cm_response_timeout)
            .field("local_cm_response_timeout", &self.local_cm_response_timeout)
            .field("max_cm_retries", &self.max_cm_retries)
            .field("target_ack_delay", &self.target_ack_delay)
            .field("max_path_mtu", &self.max_path_mtu)
            .field("default_backlog", &self.default_backlog)
            .field("half_open", &self.half_open)
            .field("half_open_per_source", &self.half_open_per_source)
            .field("answers_per_second", &self.answers_per_second)
            .field("passive_retries", &self.passive_retries)
            .finish_non_exhaustive()
    }
}

/// How long the connection protocol waits.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Timers {
    /// Before the first retransmission of a REQ, REP or DREQ; doubled for each further one. Default
    /// 1 s.
    pub first_retry: Duration,
    /// While peers take long to answer, retransmissions are put off: those that come due until so long
    /// after a message was first sent, if there is time for a later one. Default 3 s; 0: never.
    pub put_off: Duration,
    /// In all, from `connect` to UNREACHABLE, unless `ConnParam::timeout` says otherwise; also from
    /// `accept` to UNREACHABLE, and from `disconnect` to a DISCONNECTED by timeout. Default 30 s.
    pub deadline: Duration,
    /// A peer's MRA extends the deadline up to this far from the start, 109 minutes at most. Default
    /// 120 s.
    pub max_wait: Duration,
    /// The first retransmission of a SIDR_REQ; then it doubles. Default 4.096 s: who answers at once
    /// takes a repeated one for another (Linux).
    pub sidr_first_retry: Duration,
    /// For the application to accept or reject a request. Then it is rejected. Default 60 s.
    pub accept_deadline: Duration,
}

impl Config {
    /// The defaults, with a seed that must never repeat (see [`Config::seed`]).
    pub const fn new(seed: u64) -> Config {
        Config {
            seed,
            comm_id_prefix: (0, 0),
            port_range: (32768, 60999),
            loopback_is_wildcard: false,
            timers: Timers {
                first_retry: Duration::from_secs(1),
                put_off: Duration::from_secs(3),
                deadline: Duration::from_secs(30),
                max_wait: Duration::from_secs(120),
                sidr_first_retry: Duration::from_millis(4096),
                accept_deadline: Duration::from_secs(60),
            },
            lenient: false,
            remote_cm_response_timeout: 20,
            local_cm_response_timeout: 18,
            max_cm_retries: 15,
            target_ack_delay: 15,
            max_path_mtu: 5,
            default_backlog: 1024,
            half_open: 0,
            half_open_per_source: 0,
            answers_per_second: 1000,
            passive_retries: 3,
        }
    }
}
