//! Engines between threads and interrupt handlers.
//!
//! Several threads may share one engine behind a spin lock ([`Shared`], feature `spin`). An interrupt
//! handler never touches the engine: it pushes what came in into an [`Inbox`], a ring without locks,
//! and whoever owns the engine hands that over when it gets to it.

use crate::addr::Path;
use crate::cm::Cm;
use crate::time::Instant;
use crate::wire::Mad;
use heapless::spsc::{Consumer, Queue};

/// A datagram that has come in.
#[derive(Clone, Copy, Debug)]
pub struct Inbound {
    /// From where.
    pub path: Path,
    /// What.
    pub mad: Mad,
}

/// Datagrams from one interrupt handler to one owner: room for `N` − 1. When it is full the handler
/// drops what comes; peers repeat it.
///
/// ```
/// use nanocm_core::{Cm, Config, Gid, Inbound, Inbox, Instant, Path, RocePath, Storage};
/// use nanocm_core::port::map_words;
///
/// let mut storage = Storage::<4, 4, 4, 8, 2, { map_words(28_232) }>::new();
/// let mut cm = Cm::new(storage.parts(), Config::new(0x5eed)).unwrap();
/// let mut inbox = Inbox::<9>::new();
/// let (mut handler, mut owner) = inbox.split();
///
/// // In the interrupt handler:
/// let path = Path::Roce(RocePath::new(Gid::ZERO, Gid::ZERO));
/// let dropped = handler.enqueue(Inbound { path, mad: [0; 256] }).is_err();
///
/// // In the main loop:
/// cm.handle_inbox(Instant::from_millis(1), &mut owner);
/// assert_eq!((dropped, cm.counters().received), (false, 1));
/// ```
pub type Inbox<const N: usize> = Queue<Inbound, N>;

impl Cm<'_> {
    /// Handles what is in an inbox now; what comes meanwhile is for the next call.
    pub fn handle_inbox(&mut self, now: Instant, inbox: &mut Consumer<'_, Inbound>) {
        for _ in 0..inbox.len() {
            let Some(Inbound { path, mad }) = inbox.dequeue() else { return };
            let _ = self.handle_datagram(now, &path, &mad);
        }
    }
}

/// One engine for several threads.
///
/// ```
/// use nanocm_core::{Cm, Config, PortSpace, Shared, Storage, port::map_words};
///
/// let mut storage = Storage::<4, 4, 4, 8, 2, { map_words(28_232) }>::new();
/// let shared = Shared::new(Cm::new(storage.parts(), Config::new(0x5eed)).unwrap());
/// let id = shared.with(|cm| cm.create_id(PortSpace::Tcp, 0)).unwrap();
/// assert!(shared.with(|cm| cm.state(id)).is_ok());
/// ```
#[cfg(feature = "spin")]
pub struct Shared<'s>(spin::Mutex<Cm<'s>>);

#[cfg(feature = "spin")]
impl<'s> Shared<'s> {
    /// Puts an engine behind a lock.
    pub const fn new(cm: Cm<'s>) -> Shared<'s> {
        Shared(spin::Mutex::new(cm))
    }

    /// Does something with the engine while nobody else can. Keep it short, and never do it in an
    /// interrupt handler.
    pub fn with<R>(&self, f: impl FnOnce(&mut Cm<'s>) -> R) -> R {
        f(&mut self.0.lock())
    }
}
