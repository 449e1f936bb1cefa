//! Field reports: what users of other connection managers ran into (facts: reports.md), played on this
//! engine, each a test named after its number. Where DESIGN wants something else than the report, the
//! test says so. Counted steps stand in for clocks.
//!
//! A test is `place::name`, as in docs/hazards.md. What other layers show of the same report is in
//! `std-shell/tests/reports.rs` (std) and `ffi/tests` (C).
//!
//! | report | test | what it shows | elsewhere |
//! |---|---|---|---|
//! | B1 | `reports::b1_a_peer_that_lost_power_is_refused_once_and_connects_then` | REJ 10 tears the old connection down; the next REQ is new, in timewait too | `stale` |
//! | B2 | `reports::b2_a_node_that_rejoins_a_mesh_needs_two_attempts_at_most` | one rule for all peers, no waiting | `stale` |
//! | B3 | `reports::b3_timewait_exit_comes_exactly_once` | one TIMEWAIT_EXIT per queue pair that was used | `close` |
//! | B4 | `reports::b4_nothing_leaks_while_nothing_can_be_sent` | a mute transport uses up no slot | |
//! | C1 | `reports::c1_every_failure_has_a_kind_and_a_value_that_is_never_negative` | a sum type of events, no signs | C |
//! | C2 | `reports::c2_refused_reset_and_unreachable_are_three_things_each_told_once` | four ends, four events, once each | |
//! | C3 | `reports::c3_every_reason_has_a_name_and_a_text`, `reports::c3_who_answers_a_request_that_was_given_up_is_told_so` | names for every code; AlreadyGone | C |
//! | C4 | `reports::c4_no_rejection_is_lost`, `reject::a_rej_means_something_in_each_state_or_is_counted` | a REJ in each state is told, or counted | |
//! | C5 | `reports::c5_every_failure_says_who_what_and_why`, `reports::c5_the_longest_rejection_fits_160_octets` | `Failure`: both ends, service and reason, without allocation | std |
//! | C6 | `reports::c6_nobody_listening_is_said_with_the_port_and_its_space` | port and port space, or the service ID in hex | |
//! | D1 | `reports::d1_an_event_needs_no_acknowledgement` | an event is a value; destroy does not wait for it | C |
//! | D2 | `reports::d2_everything_may_be_destroyed_while_events_are_polled` | any identifier may go inside the loop | |
//! | D3 | `reports::d3_ten_thousand_goodbyes_cost_ten_times_as_much_as_a_thousand` | destroy waits for nothing; goodbyes are bounded and give way | `benches` |
//! | D4 | `reports::d4_an_engine_may_go_before_its_identifiers` | nothing of one engine is found by the next | C |
//! | D5 | `reports::d5_an_event_path_without_room_cannot_be` | events are derived: no queue, nothing deferred | |
//! | D7 | `reports::d7_an_engine_is_sent_between_threads_and_ends_without_its_peers` | Send and Sync; the end of an engine is no call | C |
//! | F1 | `reports::f1_each_message_has_its_limit_and_beyond_it_nothing_is_sent` | the limit is in the error; nothing has changed | |
//! | F2 | `reports::f2_what_was_not_sent_arrives_as_zero` | the whole field, zero behind the data | |
//! | F3 | `reports::f3_limits_are_constants_and_empty_is_the_same_as_none` | `conn::limits` | |
//! | G1 | `reports::g1_a_full_backlog_is_silent_and_counted_and_the_repetition_gets_in`, `reports::g1_a_listener_may_reject_when_full_instead` | silence and a counter, or REJ 3 | `full` |
//! | G2 | `reports::g2_nothing_grows_with_the_number_of_finished_connections` | 100,000 connections, nothing left | |
//! | G3 | `reports::g3_eight_thousand_clients_at_once_cost_each_no_more_than_a_few` | 8,192 at once over a lossy link | `benches` |
//! | G4 | `reports::g4_a_lost_req_costs_a_second_not_eighteen` | default and Linux's timer | `recovery` |
//! | G5 | `reports::g5_a_dead_peer_is_told_at_the_deadline` | UNREACHABLE at the deadline, REJ 4 once | `recovery` |
//! | G6 | `reports::g6_a_disconnect_that_nobody_answers_says_so` | DISCONNECTED(timeout), then TIMEWAIT_EXIT | `recovery` |
//! | G7 | `reports::g7_a_client_that_comes_before_its_server_asks_again_with_the_same_identifier` | `reset` after REJ 8 | `close` |
//! | G10 | `reports::g10_the_ack_timeout_is_twice_the_lifetime_and_the_delay` | codes without wrap; unset is not 0 | |
//! | H1 | `reports::h1_a_changed_neighbour_fails_nothing_and_a_failure_is_told_once` | ADDR_CHANGE while it stands, else nothing; one terminal event | `addr_change` |
//! | H2 | `reports::h2_a_disconnected_is_owed_exactly_from_established_to_disconnected`, `reports::h2_a_datagram_service_owes_no_disconnected` | `owes_disconnected`, over random orders | `storm` |
//! | H3 | `reports::h3_connects_that_cross_are_two_connections` | rejecting the other's request harms none of ours | |
//! | H4 | `reports::h4_no_call_waits_for_anything` | None at once; `poll_at` is all there is to wait for | std |
//! | I1 | `reports::i1_a_link_local_destination_without_scope_is_refused_at_once` | ScopeMissing; a bound source says the link | `resolve` |
//! | I5 | `reports::i5_a_device_that_goes_is_told_once_in_every_state` | DEVICE_REMOVAL once; then only `destroy` | `removal` |
//! | I6 | `reports::i6_a_gid_on_roce_is_the_ip_address_it_spells` | mapped IPv4, or refused | std |
//! | I7 | `reports::i7_a_zone_selects_the_device_and_a_wildcard_takes_any` | zones, wildcards of either family | std |
//! | J1 | `reports::j1_the_type_of_service_is_on_the_path_and_in_the_req`, `reports::j1_the_peer_answers_with_the_same_marking` | TOS until `connect`; 0 is a value | std |
//! | K1 | `reports::k1_two_endpoints_connect_in_sixty_lines` | the front page's example | `make bare-metal` |
//! | K2 | `reports::k2_frames_in_and_frames_out` | 280 octets in, 280 out, read by hand | `linux` |
//! | K3 | `reports::k3_one_connection_is_enough_for_a_responder` | capacity 1; a second gets REJ 3 | |
//! | K4 | `reports::k4_the_eleven_messages_have_eleven_numbers` | eleven attributes, eleven types | `wire` |

mod b;
mod c;
mod d;
mod f;
mod g;
mod h;
mod i;
mod j;
mod k;

/// A small generator of the tests' own.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}
