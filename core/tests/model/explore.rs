//! Breadth first through every state that a world can get into.
//!
//! A world cannot be copied, so for each step it is played again from its beginning: a state is kept as
//! the way to it. So engines must do the same every time, and a failure is a list of steps. States are
//! told apart by a digest; whether that has all that counts is tried out on some that are met again.

use std::any::Any;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// Something that can be in many states.
pub(crate) trait World {
    /// What can happen in it.
    type Action: Copy + Debug;

    /// What can happen next.
    fn actions(&self) -> Vec<Self::Action>;

    /// Makes it happen.
    fn act(&mut self, action: Self::Action);

    /// The state, in one number.
    fn digest(&self) -> u128;

    /// Panics if something does not hold in this state. It is the same one afterwards.
    fn check(&mut self);

    /// Panics if this state does not lead to a good end by itself. The world is not used again.
    fn settle(&mut self);

    /// The state, for people.
    fn describe(&self) -> String;
}

/// Where a world begins: hands out a new one.
pub(crate) trait Scenario: Sync {
    /// What can happen.
    type Action: Copy + Debug;

    /// Whether nothing but the state, as its digest has it, decides what comes next.
    const DETERMINED: bool;

    /// Its name.
    fn name(&self) -> &str;

    /// A new world.
    fn play<R>(&self, with: impl FnOnce(&mut dyn World<Action = Self::Action>) -> R) -> R;
}

/// What was found.
pub(crate) struct Report {
    /// The scenario.
    pub(crate) name: String,
    /// Different states.
    pub(crate) states: usize,
    /// Steps between them.
    pub(crate) transitions: usize,
    /// Steps to the furthest.
    pub(crate) depth: usize,
    /// How long that took.
    pub(crate) seconds: f64,
    /// What does not hold, and how to get there.
    pub(crate) failure: Option<String>,
}

/// If one of so many steps leads to a known state, it is looked at whether that is the same state.
const TWINS: usize = 64;

/// Visits every state, or at least so many.
pub(crate) fn explore<S: Scenario>(scenario: &S, enough: usize) -> Report {
    let start = Instant::now();
    let mut found = Found { ways: vec![(0, None)], seen: HashMap::new() };
    let mut queue = VecDeque::new();
    let mut report = Report {
        name: scenario.name().into(),
        states: 0,
        transitions: 0,
        depth: 0,
        seconds: 0.0,
        failure: None,
    };
    let step = |way: &[S::Action], found: &mut Found<S::Action>| {
        let visit = || scenario.play(|world| arrive(world, way, found));
        catch_unwind(AssertUnwindSafe(visit)).map_err(|why| explain(scenario, way, &*why))
    };
    match step(&[], &mut found) {
        Ok(Arrival::New(actions)) => queue.push_back((0, actions)),
        Ok(Arrival::Known(_)) => {}
        Err(failure) => report.failure = Some(failure),
    }
    'all: while let Some((from, actions)) = queue.pop_front() {
        let mut way = found.way(from);
        report.depth = way.len();
        if found.seen.len() > enough {
            break;
        }
        for action in actions {
            report.transitions += 1;
            way.push(action);
            let failure = match step(&way, &mut found) {
                Ok(Arrival::New(actions)) => {
                    found.ways.push((from, Some(action)));
                    queue.push_back((found.ways.len() - 1, actions));
                    None
                }
                Ok(Arrival::Known(first))
                    if S::DETERMINED && report.transitions.is_multiple_of(TWINS) =>
                {
                    compare(scenario, &found.way(first), &way).err()
                }
                Ok(Arrival::Known(_)) => None,
                Err(failure) => Some(failure),
            };
            if failure.is_some() {
                report.failure = failure;
                break 'all;
            }
            way.pop();
        }
    }
    report.states = found.seen.len();
    report.seconds = start.elapsed().as_secs_f64();
    report
}

/// Goes a way. If it leads to a new state: checks that, and says what can happen there.
fn arrive<A: Copy + Debug>(
    world: &mut dyn World<Action = A>,
    way: &[A],
    found: &mut Found<A>,
) -> Arrival<A> {
    way.iter().for_each(|&action| world.act(action));
    match found.seen.entry(world.digest()) {
        Entry::Occupied(first) => return Arrival::Known(*first.get()),
        // It gets the next place, unless it is a failure, which ends everything.
        Entry::Vacant(new) => new.insert(if way.is_empty() { 0 } else { found.ways.len() }),
    };
    world.check();
    let actions = world.actions();
    world.settle();
    Arrival::New(actions)
}

/// What is at the end of a way.
enum Arrival<A> {
    /// A state that was never seen, and what can happen there.
    New(Vec<A>),
    /// One to which that way led first.
    Known(usize),
}

/// Two ways lead to one state by its digest, so both lead on to the same states. If not, something is
/// missing in the digest, and states are overlooked.
fn compare<S: Scenario>(
    scenario: &S,
    one: &[S::Action],
    other: &[S::Action],
) -> Result<(), String> {
    if beyond(scenario, one) == beyond(scenario, other) {
        return Ok(());
    }
    let why = format!("two states have one digest\n{}and", explain(scenario, one, &""));
    Err(explain(scenario, other, &why))
}

/// The states that a way leads to with one step more.
fn beyond<S: Scenario>(scenario: &S, way: &[S::Action]) -> BTreeSet<Option<u128>> {
    let go = |world: &mut dyn World<Action = S::Action>| {
        way.iter().for_each(|&action| world.act(action));
    };
    let actions = scenario.play(|world| {
        go(world);
        world.actions()
    });
    let step = |action| {
        scenario.play(|world| {
            go(world);
            world.act(action);
            world.digest()
        })
    };
    // What panics is found when it is visited.
    let safely = |&action| catch_unwind(AssertUnwindSafe(|| step(action))).ok();
    actions.iter().map(safely).collect()
}

/// States by the step that led to them first.
struct Found<A> {
    ways: Vec<(usize, Option<A>)>,
    /// Which of them has this digest.
    seen: HashMap<u128, usize>,
}

impl<A: Copy> Found<A> {
    fn way(&self, mut to: usize) -> Vec<A> {
        let mut way = Vec::new();
        while let (from, Some(action)) = self.ways[to] {
            way.push(action);
            to = from;
        }
        way.reverse();
        way
    }
}

/// The way to a failure, step by step.
fn explain<S: Scenario>(scenario: &S, way: &[S::Action], why: &(dyn Any + Send)) -> String {
    let text = why.downcast_ref::<String>().map(String::as_str);
    let why = text.or(why.downcast_ref::<&str>().copied()).unwrap_or("?");
    let why = why.replace("assertion `left == right` failed: ", "");
    let mut text = format!("{}: {why}\n", scenario.name());
    scenario.play(|world| {
        text += &format!("  {}\n", world.describe());
        for &action in way {
            let act = catch_unwind(AssertUnwindSafe(|| world.act(action)));
            text += &format!("{action:?}\n  {}\n", world.describe());
            if act.is_err() {
                break;
            }
        }
    });
    text
}
