//! A backend that takes its time: it tells one event a turn, and none in the turn of an operation.

use nanocm::core::{Id, Path};
use nanocm::provider::Mem;
use nanocm::{
    Backend, Cause, ConnParam, ConnState, Counters, Engine, IdOption, InUse, PeerParam, PortSpace,
    QpAttrs, QpState, RejectReason, State, Told, Turn,
};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::Duration;

pub(crate) struct Slow {
    engine: Engine<Mem>,
    untold: VecDeque<Told>,
    /// An operation comes just before its turn.
    operating: bool,
}

impl Slow {
    pub(crate) fn new(engine: Engine<Mem>) -> Slow {
        Slow { engine, untold: VecDeque::new(), operating: false }
    }
}

macro_rules! operations {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $result:ty;)*) => {$(
        fn $name(&mut self, $($arg: $ty),*) -> Result<$result, Cause> {
            self.operating = true;
            self.engine.$name($($arg),*)
        }
    )*};
}

macro_rules! getters {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $result:ty;)*) => {$(
        fn $name(&self, $($arg: $ty),*) -> $result {
            self.engine.$name($($arg),*)
        }
    )*};
}

impl Backend for Slow {
    operations! {
        open(local: IpAddr, scope: u32) -> ();
        source_for(destination: SocketAddr) -> SocketAddr;
        create_id(space: PortSpace, user: u64) -> Id;
        bind(id: Id, local: SocketAddr) -> u16;
        listen(id: Id, backlog: u32) -> ();
        resolve_addr(id: Id, from: Option<SocketAddr>, to: SocketAddr, timeout: Duration) -> ();
        resolve_route(id: Id, timeout: Duration) -> ();
        connect(id: Id, param: &ConnParam<'_>) -> ();
        accept(id: Id, param: &ConnParam<'_>) -> ();
        reject(id: Id, reason: RejectReason, data: &[u8]) -> ();
        establish(id: Id, data: &[u8]) -> ();
        notify_established(id: Id) -> ();
        disconnect(id: Id, data: &[u8]) -> ();
        reset(id: Id) -> ();
        set_option(id: Id, option: IdOption) -> ();
        set_user(id: Id, user: u64) -> ();
    }

    fn destroy(&mut self, id: Id) -> Result<(), Cause> {
        self.operating = true;
        self.untold.retain(|told| told.event.id != id);
        self.engine.destroy(id)
    }

    getters! {
        state(id: Id) -> Result<State, Cause>;
        conn_state(id: Id) -> Result<ConnState, Cause>;
        local_addr(id: Id) -> Result<SocketAddr, Cause>;
        peer_addr(id: Id) -> Result<SocketAddr, Cause>;
        peer_param(id: Id) -> Result<PeerParam, Cause>;
        path(id: Id) -> Result<Option<Path>, Cause>;
        qp_attrs(id: Id, to: QpState) -> Result<QpAttrs, Cause>;
        counters() -> Counters;
        in_use() -> InUse;
        fd() -> BorrowedFd<'_>;
    }

    fn turn(&mut self, tell: &mut dyn FnMut(Told)) -> Turn {
        let mut turn = self.engine.turn(&mut |told| self.untold.push_back(told));
        if !std::mem::take(&mut self.operating)
            && let Some(told) = self.untold.pop_front()
        {
            tell(told);
        }
        turn.more |= !self.untold.is_empty();
        turn
    }
}
