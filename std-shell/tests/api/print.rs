//! What is printed for those who look for a mistake: a line each, not tables.

use crate::world::*;
use nanocm::core::{Memory, Storage};
use nanocm::provider::{Raw, Udp};
use nanocm::{Capacity, Engine, future};

#[test]
fn all_print_themselves_in_a_line() {
    let world = World::new(nanocm::Drive::Thread);
    let (ours, theirs) = world.meet();
    let listener = world.listen();
    let channel = world.client.channel().unwrap();
    let endpoint = world.net.endpoint(&["10.0.0.7".parse().unwrap()]).unwrap();
    let memory = Memory::new(Capacity::of(4));
    let mut storage = Storage::<4, 4, 1, 2, 1, 1>::new();
    let mut texts = vec![
        format!("{:?} {:?}", world.net, endpoint),
        format!("{:?} {channel:?} {listener:?}", world.client),
        format!("{ours:?} {theirs:?} {:?}", ours.id()),
        format!("{memory:?} {storage:?}"),
        format!("{:?}", storage.parts()),
        format!("{:?}", Engine::new(endpoint, quick(1), Capacity::of(4)).unwrap()),
        format!("{:?}", future::Listener::bind(&world.client, at(CLIENT), 0).unwrap()),
    ];
    texts.extend(Udp::new((0, 0)).map(|udp| format!("{udp:?}")));
    texts.extend(Raw::new((0, 0)).map(|raw| format!("{raw:?}")));
    for text in texts {
        assert!((5..300).contains(&text.len()) && !text.contains('\n'), "{text}");
    }
}
