//! Ports of RDMA and of the host: real sockets and real programs, each test in a network namespace
//! of its own. Who stands in whose way, who is told what, who lives on.
//!
//! | what must hold | test |
//! |---|---|
//! | iperf has the port: refused, named, and iperf serves on | `daemon::a_daemon_keeps_its_port_and_its_clients` |
//! | we have it: iperf fails, its clients are refused at once, RDMA works | `daemon::a_daemon_cannot_take_the_port_of_an_rdma_listener` |
//! | iperf's TIME_WAIT: we listen at once, as strong as ever | `daemon::the_remnants_of_a_daemon_are_in_nobodys_way`, `others::a_holder_amid_remnants_is_as_strong_as_any` |
//! | each cause by its name, with advice | `refused`, `limits`, `udp::the_other_program_is_named` |
//! | no option, user or wider address of another program's gets in | `others` |
//! | 10,000 listeners by port 0, beside a program that connects | `crowd` |
//! | the range held to the share | `limits::at_the_share_limit_the_host_still_connects_from_everywhere` |
//! | 100,000 towards four ports, no socket of the host's | `active::a_hundred_thousand_towards_four_ports_hold_no_port_of_the_hosts` |
//! | one source port, 2,000 peers, one socket | `active::one_socket_holds_the_source_port_towards_two_thousand_peers` |
//! | one number for TCP and RDMA, whichever comes or goes first | `shared` |
//! | kill -9 with 1,000 held | `fork::a_killed_process_leaves_nothing_reserved` |
//! | a forked child that never execs | `fork` |
//! | a connection outlives its listener, the port does not | `limits::a_connection_outlives_its_listener_without_the_port` |
//! | 64 descriptors | `limits::out_of_descriptors_nothing_is_half_held` |
//! | two ports, the second taken | `listing::a_request_of_two_whose_second_is_taken_holds_nothing` |
//!
//! Of the field reports (facts: reports.md): A1 `daemon`, A4 `shared`, A5 `covered`, A6 `refused` (a conflict shows at
//! `bind`), A7 `active`, G8 `limits`, J2 `fork`.
//!
//! Read first: `docs/ports.md`.

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)]
#[path = "../program/process.rs"]
mod process;
mod world;

mod active;
mod covered;
mod crowd;
mod daemon;
mod fork;
mod limits;
mod listing;
mod others;
mod refused;
mod shared;
mod udp;
