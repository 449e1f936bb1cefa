//! Random calls with random arguments, through the C functions: no panic, no error without a name, and
//! nothing left when everything is destroyed. Arithmetic is checked in a build for tests.

use nanocm_ffi::*;
use std::mem::{MaybeUninit, size_of};
use std::ptr::{null, null_mut};

/// A small generator (SplitMix64), so that a seed makes the same calls everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Mostly small, sometimes anything.
    fn number(&mut self) -> u32 {
        match self.below(8) {
            0 => self.next() as u32,
            1 => u32::MAX >> self.below(32),
            _ => self.below(40) as u32,
        }
    }

    fn one_of<T: Copy>(&mut self, some: &[T]) -> T {
        some[self.below(some.len())]
    }
}

#[repr(C, align(16))]
struct Memory([u8; 32 << 10]);

struct Side {
    cm: *mut ncm_cm,
    addr: ncm_addr,
    ids: Vec<ncm_id>,
    qpn: u32,
    _memory: Box<Memory>,
}

fn ok(error: ncm_error) {
    assert_eq!(error, ncm_error_code::NCM_OK as ncm_error);
}

/// A structure as its `_init` function makes it.
fn made<T>(init: impl FnOnce(*mut T, usize) -> ncm_error) -> T {
    let mut value = MaybeUninit::uninit();
    ok(init(value.as_mut_ptr(), size_of::<T>()));
    // SAFETY: initialised, or we would not be here.
    unsafe { value.assume_init() }
}

/// A structure for a result: all zero but its size.
fn room<T>() -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: structures for results are integers, the size in front.
    unsafe {
        value.as_mut_ptr().cast::<u32>().write(size_of::<T>() as u32);
        value.assume_init()
    }
}

fn start(seed: u64, last: u8) -> Side {
    let mut memory = Box::new(Memory([0xee; _]));
    let mut cm = null_mut();
    let addr = ncm_ipv4(10, 0, 0, last, 0);
    // SAFETY: pointers to what they should point to, here and below.
    unsafe {
        let mut capacity = made(|place, size| ncm_capacity_init(place, size, 6));
        (capacity.map, capacity.gids, capacity.replies) = (64, 2, 2);
        let mut config = made(|place, size| ncm_config_init(place, size, seed));
        config.port_high = config.port_low + 40;
        let size = size_of::<Memory>();
        ok(ncm_init((&raw mut *memory).cast(), size, &capacity, &config, &mut cm));
        let event = ncm_port_event { kind: 1, ca_guid: last.into(), address: addr, ..room() };
        ok(ncm_handle_port_event(cm, 0, &event));
    }
    Side { cm, addr, ids: Vec::new(), qpn: 0x100, _memory: memory }
}

fn at(addr: ncm_addr, port: u16) -> ncm_addr {
    ncm_addr { port, ..addr }
}

/// One call. What it says, if it says something.
fn call(random: &mut Random, sides: &mut [Side; 2], now: &mut u64) -> ncm_error {
    let which = random.below(2);
    let (us, peer) = (&sides[which], sides[1 - which].addr);
    let (cm, local) = (us.cm, us.addr);
    let stale = random.next();
    let id = match random.below(16) {
        0 => stale,
        _ if us.ids.is_empty() => 0,
        _ => us.ids[random.below(us.ids.len())],
    };
    let port = random.one_of(&[0, 4420, 4421, 32768, random.0 as u16]);
    let here = at(random.one_of(&[local, local, ncm_ipv4(0, 0, 0, 0, 0), peer]), port);
    let there = at(random.one_of(&[peer, peer, peer, local, here]), port);
    let maybe = random.one_of(&[&raw const there, null()]);
    let path = ncm_roce_path(random.one_of(&[local, local, there]), there);
    let data = [random.0 as u8; 256];
    let any = random.below(300);
    let len = random.one_of(&[0, 1, 56, 57, 136, 180, 196, 197, any]);
    let time = random.one_of(&[0, 1, 1_000_000_000, u64::MAX, random.0]);
    let number = random.number();
    // SAFETY: pointers to what they should point to, or NULL.
    unsafe {
        let mut param = made(|place, size| ncm_conn_param_init(place, size, random.number()));
        (param.private_data, param.private_data_len) = (data.as_ptr(), len);
        (param.retries, param.transport) = (random.number() as u8, random.below(4) as u8);
        (param.timeout, param.retry_count) = (random.one_of(&[0, time]), random.below(9) as u8);
        let mut route = made(|place, size| ncm_route_init(place, size, &path));
        (route.mtu, route.packet_lifetime) = (random.below(7) as u8, random.below(34) as u8);
        let (mut new, mut key, mut word) = (0, room::<ncm_port_key>(), 0);
        match random.below(36) {
            0..=3 => {
                let space = random.one_of(&[0x106, 0x106, 0x106, 0x111, 0x13f, 2, 1, number]);
                let error = ncm_create_id(cm, space, random.0, &mut new);
                if new != 0 {
                    sides[which].ids.push(new);
                }
                error
            }
            4 => ncm_bind(cm, id, &here, null_mut()),
            5 => match ncm_propose_port(cm, id, &here, maybe, &mut key) {
                0 => ncm_bind_reserved(cm, id, &key, maybe),
                error => error,
            },
            6 => ncm_listen(cm, id, random.number()),
            7 => ncm_resolve_addr(cm, *now, id, maybe, &there, time),
            8 => ncm_resolve_route(cm, *now, id, time),
            9..=11 => ncm_set_route(cm, *now, id, &there, &route),
            12..=14 => ncm_connect(cm, *now, id, &param),
            15 | 16 => ncm_accept(cm, *now, id, &param),
            17 => ncm_reject(cm, *now, id, number, data.as_ptr(), len),
            18 | 19 => ncm_establish(cm, *now, id, data.as_ptr(), len),
            20 => ncm_notify_established(cm, *now, id),
            21 => ncm_disconnect(cm, *now, id, data.as_ptr(), len),
            22 => ncm_reset(cm, id),
            23 => ncm_set_option(cm, id, random.below(20) as u32, number),
            24 => {
                let error = ncm_destroy(cm, *now, id, &mut key);
                sides[which].ids.retain(|&other| other != id);
                error
            }
            25 => {
                let (kind, address) = (random.below(6) as u32, random.one_of(&[local, there]));
                let event =
                    ncm_port_event { kind, ca_guid: random.number().into(), address, ..room() };
                // A device that has gone comes back.
                let again = ncm_port_event { kind: 1, ca_guid: 1, address: local, ..room() };
                ncm_handle_port_event(cm, *now, &event);
                ncm_handle_port_event(cm, *now, &again)
            }
            26 => {
                let mut request = room::<ncm_request>();
                match ncm_poll_request(cm, &mut request) {
                    0 => {
                        let mut answer =
                            made(|place, size| ncm_completion_init(place, size, &request));
                        answer.route = ncm_route { path, ..answer.route };
                        (answer.error, answer.route.mtu) = (number, route.mtu);
                        answer.kind = random.one_of(&[request.kind, number]);
                        ncm_handle_completion(cm, *now, &answer)
                    }
                    error => error,
                }
            }
            27 => {
                // Never so far that the end of time stops the clock.
                *now += random.one_of(&[1, 1_000_000_000, time >> (8 + number % 56)]);
                ncm_handle_timeout(cm, *now, random.number(), null_mut())
            }
            28 => ncm_handle_datagram(cm, *now, &path, data.as_ptr(), data.len(), null_mut()),
            29 => ncm_handle_send_failed(cm, *now, random.0, number),
            30 => ncm_poll_at(cm, &mut word),
            31 => ncm_get_qp_attrs(cm, id, random.below(5) as u32, &mut room()),
            32 => serve(random, &mut sides[which]),
            _ => dial(random, &mut sides[which], peer, *now),
        }
    }
}

/// A listener, as it should be.
fn serve(random: &mut Random, side: &mut Side) -> ncm_error {
    let (space, port) = random.one_of(&[(0x106, 4420), (0x111, 4421)]);
    let (any, mut id) = (ncm_ipv4(0, 0, 0, 0, port), 0);
    // SAFETY: pointers to what they should point to.
    unsafe {
        match ncm_create_id(side.cm, space, 0, &mut id) {
            0 => side.ids.push(id),
            error => return error,
        }
        match ncm_bind(side.cm, id, &any, null_mut()) {
            0 => ncm_listen(side.cm, id, 0),
            error => error,
        }
    }
}

/// A connection or a question to a datagram service, as it should be.
fn dial(random: &mut Random, side: &mut Side, peer: ncm_addr, now: u64) -> ncm_error {
    let (space, port) = random.one_of(&[(0x106, 4420), (0x111, 4421)]);
    let (to, mut id) = (at(peer, port), 0);
    let path = ncm_roce_path(side.addr, to);
    // SAFETY: pointers to what they should point to.
    unsafe {
        match ncm_create_id(side.cm, space, 0, &mut id) {
            0 => side.ids.push(id),
            error => return error,
        }
        let route = made(|place, size| ncm_route_init(place, size, &path));
        match ncm_set_route(side.cm, now, id, &to, &route) {
            0 => ncm_connect(side.cm, now, id, &side.param()),
            error => error,
        }
    }
}

impl Side {
    /// Of a queue pair that is not in use.
    fn param(&mut self) -> ncm_conn_param {
        self.qpn += 1;
        // SAFETY: a place for it.
        made(|place, size| unsafe { ncm_conn_param_init(place, size, self.qpn) })
    }

    /// Goes on as an application does that means well.
    fn answer(&mut self, event: &ncm_event, now: u64) {
        const REQUEST: u32 = ncm_event_kind::NCM_EVENT_CONNECT_REQUEST as u32;
        const RESPONSE: u32 = ncm_event_kind::NCM_EVENT_CONNECT_RESPONSE as u32;
        // SAFETY: pointers to what they should point to.
        unsafe {
            match event.kind {
                REQUEST => ncm_accept(self.cm, now, event.id, &self.param()),
                RESPONSE => ncm_establish(self.cm, now, event.id, null(), 0),
                _ => 0,
            };
        }
    }
}

/// Carries what there is, but for some that are lost, doubled or damaged. New identifiers are kept.
fn carry(random: &mut Random, sides: &mut [Side; 2], now: u64, lossless: bool) {
    for which in [0, 1] {
        let (mut payload, mut frame) = ([0u8; NCM_FRAME_LEN], room::<ncm_frame>());
        let (to, back) =
            (sides[1 - which].cm, ncm_roce_path(sides[1 - which].addr, sides[which].addr));
        // SAFETY: pointers to what they should point to.
        unsafe {
            while ncm_poll_frame(sides[which].cm, now, 0, payload.as_mut_ptr(), &mut frame) == 0 {
                frame.path = back;
                let copies = if lossless { 1 } else { random.one_of(&[0, 1, 1, 1, 2]) };
                if !lossless && random.below(8) == 0 {
                    payload[random.below(280)] ^= 1 << random.below(8);
                    frame.seen = random.one_of(&[0, 1, 2, 2, 2]);
                }
                for _ in 0..copies {
                    let (at, len) = (payload.as_ptr(), payload.len());
                    ok(ncm_handle_frame(to, now, &frame, at, len, null_mut()));
                }
            }
            let mut event = room::<ncm_event>();
            while ncm_poll_event(sides[which].cm, &mut event) == 0 {
                assert!(event.kind != 255 && (event.value as i32) >= 0, "{event:?}");
                if event.kind == ncm_event_kind::NCM_EVENT_CONNECT_REQUEST as u32 {
                    sides[which].ids.push(event.id);
                }
                if !lossless && random.below(4) > 0 {
                    sides[which].answer(&event, now);
                }
                let (mut text, mut len) = ([0; NCM_FAILURE_TEXT_SIZE], 0);
                let said = ncm_failure_text(
                    sides[which].cm,
                    &event,
                    text.as_mut_ptr(),
                    text.len(),
                    &mut len,
                );
                assert!(said == 0 || said == ncm_error_code::NCM_INVALID_VALUE as i32, "{event:?}");
            }
        }
    }
}

/// Plays, and says how many calls did something, and how many connections stood and services answered.
fn play(seed: u64, calls: usize) -> [usize; 3] {
    let mut random = Random(seed);
    let mut sides = [start(random.next(), 1), start(random.next(), 2)];
    let (mut now, mut done) = (random.one_of(&[0, 1 << 52]), 0);
    for _ in 0..calls {
        let said = call(&mut random, &mut sides, &mut now);
        let bug = [ncm_error_code::NCM_PANICKED, ncm_error_code::NCM_OTHER_ERROR]
            .iter()
            .any(|&code| code as ncm_error == said);
        assert!(!bug, "seed {seed}");
        done += usize::from(said == 0);
        if random.below(3) == 0 {
            carry(&mut random, &mut sides, now, false);
        }
    }
    for side in &mut sides {
        for id in std::mem::take(&mut side.ids) {
            // SAFETY: an engine.
            unsafe { ncm_destroy(side.cm, now, id, null_mut()) };
        }
    }
    // Requests that were under way are destroyed as they come; then nothing is left.
    for _ in 0..200 {
        carry(&mut random, &mut sides, now, true);
        now += 10_000_000_000;
        for side in &mut sides {
            // SAFETY: an engine.
            unsafe {
                ok(ncm_handle_timeout(side.cm, now, 0, null_mut()));
                side.ids.drain(..).for_each(|id| ok(ncm_destroy(side.cm, now, id, null_mut())));
            }
        }
    }
    let (mut stood, mut answered) = (0, 0);
    for side in &sides {
        let mut clean = 0;
        // SAFETY: an engine.
        unsafe {
            ok(ncm_is_clean(side.cm, &mut clean));
            let (mut ids, mut conns) = (0, 0);
            ok(ncm_get_in_use(side.cm, &mut ids, &mut conns));
            assert_eq!(clean, 1, "seed {seed}, time {now}: {ids} identifiers, {conns} connections");
            let mut counters = room::<ncm_counters>();
            ok(ncm_get_counters(side.cm, &mut counters));
            stood += counters.established as usize;
            answered += counters.resolved as usize;
            ok(ncm_finish(side.cm));
        }
    }
    [done, stood, answered]
}

#[test]
fn whatever_is_called_nothing_breaks() {
    let games = std::env::var("GAMES").map_or(300, |games| games.parse().expect("a number"));
    let mut sum = [0; 3];
    for seed in 0..games {
        let game = play(seed, 400);
        sum = std::array::from_fn(|i| sum[i] + game[i]);
    }
    println!("{games} games: calls that did something, connections, datagram services: {sum:?}");
    assert!(sum.iter().all(|&count| count > 20), "{sum:?}");
}
