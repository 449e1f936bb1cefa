//! The operations on a connection: each checks the identifier, then asks machine 2.

use super::slot::{Stage, flag, pending};
use super::{Ids, State};
use crate::cm::Cm;
use crate::conn::{ConnParam, NotNow, Outcome, QpAttrs, QpState};
use crate::error::{ConnectError, errno};
use crate::event::Unreachable;
use crate::handle::Id;
use crate::time::Instant;
use crate::wire::RejectReason;

impl Cm<'_> {
    /// Sends a REQ (`rdma_connect`), again until it is answered. Then CONNECT_RESPONSE, REJECTED or
    /// UNREACHABLE. From a datagram port space a SIDR_REQ, then ESTABLISHED, REJECTED or UNREACHABLE.
    ///
    /// # Errors
    /// [`ConnectError`]; the identifier is as it was.
    pub fn connect(
        &mut self,
        now: Instant,
        id: Id,
        param: &ConnParam<'_>,
    ) -> Result<(), ConnectError> {
        self.conns.advance(now);
        let index = self.ids.find(id).ok_or(ConnectError::NoSuchId)?;
        let state = self.ids.state(index);
        let (State::RouteResolved, Some(conn)) = (state, self.ids.conn(index)) else {
            return Err(ConnectError::in_state(state));
        };
        match self.ids.slot(index).space().is_connected() {
            true => self.conns.connect(conn, param)?,
            false => self.conns.ask_service(conn, param)?,
        }
        self.ids.set_stage(index, Stage::CONNECT, "connect");
        Ok(())
    }

    /// Accepts a request (`rdma_accept`): sends a REP, again until its RTU comes. Then ESTABLISHED,
    /// REJECTED, UNREACHABLE or DISCONNECTED. Of a datagram port space: sends a SIDR_REP, again for
    /// each repetition of the request while the identifier lives. Then nothing: no connection.
    ///
    /// # Errors
    /// [`ConnectError`]; the identifier is as it was.
    pub fn accept(
        &mut self,
        now: Instant,
        id: Id,
        param: &ConnParam<'_>,
    ) -> Result<(), ConnectError> {
        self.conns.advance(now);
        let (index, conn) = self.connecting(id)?;
        let done = self.conns.accept(conn, param);
        done.map_err(|why| self.ids.explain(index, why))?;
        self.ids.answered(index);
        Ok(())
    }

    /// Rejects a request (`rdma_reject`), or on either side a connection that does not stand yet. SIDR
    /// has fewer reasons: NO_QP is status 3, any other 2.
    /// Destroy the identifier when you like: the REJ goes out all the same.
    ///
    /// # Errors
    /// [`ConnectError`]; the identifier is as it was.
    pub fn reject(
        &mut self,
        now: Instant,
        id: Id,
        reason: RejectReason,
        private_data: &[u8],
    ) -> Result<(), ConnectError> {
        self.conns.advance(now);
        let (index, conn) = self.connecting(id)?;
        let done = self.conns.reject(conn, reason, private_data);
        done.map_err(|why| self.ids.explain(index, why))?;
        self.ids.answered(index);
        self.ids.unmark(index, pending::CONNECT_RESPONSE);
        Ok(())
    }

    /// The queue pair is ready: sends the RTU that CONNECT_RESPONSE waits for (`rdma_establish`).
    /// ESTABLISHED follows. `private_data` travels, but no peer's CM delivers it.
    ///
    /// # Errors
    /// [`ConnectError`]; the identifier is as it was.
    pub fn establish(
        &mut self,
        now: Instant,
        id: Id,
        private_data: &[u8],
    ) -> Result<(), ConnectError> {
        self.conns.advance(now);
        let (index, conn) = self.connecting(id)?;
        let done = self.conns.establish(conn, private_data);
        done.map_err(|why| self.ids.explain(index, why))?;
        self.ids.unmark(index, pending::CONNECT_RESPONSE);
        self.ids.mark(index, pending::ESTABLISHED);
        Ok(())
    }

    /// Data have come over the connection before its RTU (`rdma_notify`, `IBV_EVENT_COMM_EST`): it
    /// stands. ESTABLISHED follows.
    ///
    /// # Errors
    /// [`ConnectError`]; the identifier is as it was.
    pub fn notify_established(&mut self, now: Instant, id: Id) -> Result<(), ConnectError> {
        self.conns.advance(now);
        let (index, conn) = self.connecting(id)?;
        let done = self.conns.notify_established(conn);
        done.map_err(|why| self.ids.explain(index, why))?;
        self.ids.mark(index, pending::ESTABLISHED);
        Ok(())
    }

    /// Ends a connection (`rdma_disconnect`): sends a DREQ, again until it is answered, then
    /// DISCONNECTED; or, after the peer's DISCONNECTED, the DREP it waits for. Where the connection is
    /// over without it (the peer could not wait, or has gone), nothing is left to do, and that is no
    /// error. TIMEWAIT_EXIT comes when the queue pair may be used again. `private_data` travels, but
    /// no peer's CM delivers it.
    ///
    /// # Errors
    /// [`ConnectError`]; the identifier is as it was.
    pub fn disconnect(
        &mut self,
        now: Instant,
        id: Id,
        private_data: &[u8],
    ) -> Result<(), ConnectError> {
        self.conns.advance(now);
        let index = self.ids.find(id).ok_or(ConnectError::NoSuchId)?;
        let state = self.ids.state(index);
        let (State::Connect | State::Disconnect, Some(conn)) = (state, self.ids.conn(index)) else {
            return Err(ConnectError::in_state(state));
        };
        if !self.ids.slot(index).space().is_connected() {
            return Err(ConnectError::WrongPortSpace);
        }
        match self.conns.disconnect(conn, private_data) {
            Err(NotNow::Gone) if state == State::Disconnect => Ok(()),
            done => done.map_err(|why| self.ids.explain(index, why)),
        }
    }

    /// Makes an active identifier whose attempt or connection is over ready to connect again, with
    /// its address, port and route (with the path MTU that a peer asked for), and a new communication ID
    /// and PSN. Legal after REJECTED and UNREACHABLE; where a REP was seen, after TIMEWAIT_EXIT, when the queue pair is free.
    ///
    /// # Errors
    /// [`ConnectError`]; the identifier is as it was.
    pub fn reset(&mut self, id: Id) -> Result<(), ConnectError> {
        let index = self.ids.find(id).ok_or(ConnectError::NoSuchId)?;
        let state = self.ids.state(index);
        let (State::Connect | State::Disconnect, Some(conn)) = (state, self.ids.conn(index)) else {
            return Err(ConnectError::in_state(state));
        };
        if !self.conns.is_resettable(conn) {
            return Err(ConnectError::in_state(state));
        }
        self.conns.reset(conn);
        self.ids.unmark(index, u16::MAX);
        self.ids.slot_mut(index).set(flag::OWES_DISCONNECTED, false);
        self.ids.set_stage(index, Stage::RouteResolved, "reset");
        Ok(())
    }

    /// What the verbs need to move the connection's queue pair to `state` (`rdma_init_qp_attr`).
    ///
    /// # Errors
    /// [`ConnectError::InvalidState`] before the connection knows it: INIT from ROUTE_RESOLVED on.
    pub fn qp_attrs(&self, id: Id, to: QpState) -> Result<QpAttrs, ConnectError> {
        let index = self.ids.find(id).ok_or(ConnectError::NoSuchId)?;
        let state = self.ids.state(index);
        let has_route = state == State::RouteResolved;
        let conn = self.ids.conn(index);
        let attrs = conn.and_then(|conn| self.conns.qp_attrs(conn, to, has_route));
        let mut attrs = attrs.ok_or(ConnectError::in_state(state))?;
        if let Some(timeout) = self.ids.slot(index).ack_timeout() {
            attrs.timeout = timeout;
        }
        Ok(attrs)
    }

    /// The slots of an identifier in CONNECT.
    fn connecting(&self, id: Id) -> Result<(usize, usize), ConnectError> {
        let index = self.ids.find(id).ok_or(ConnectError::NoSuchId)?;
        match (self.ids.state(index), self.ids.conn(index)) {
            (State::Connect, Some(conn)) => Ok((index, conn)),
            (state, _) => Err(ConnectError::in_state(state)),
        }
    }

    /// What machine 2 found out, said by machine 1.
    pub(crate) fn settle(&mut self, index: usize, outcome: Outcome) {
        match outcome {
            Outcome::QueryExpired => self.query_failed(index, errno::ETIMEDOUT),
            Outcome::Response => self.ids.mark(index, pending::CONNECT_RESPONSE),
            Outcome::Established => self.ids.mark(index, pending::ESTABLISHED),
            Outcome::Rejected(_) => self.end_attempt(index, pending::REJECTED, 0),
            Outcome::Unreachable(Unreachable::Timeout) => {
                self.end_attempt(index, pending::UNREACHABLE, 0);
            }
            Outcome::Unreachable(Unreachable::SendFailed(errno)) => {
                self.end_attempt(index, pending::UNREACHABLE, errno);
            }
            Outcome::AcceptOverdue => {
                self.ids.slot_mut(index).set(flag::OVERDUE, true);
                self.end_attempt(index, pending::CONNECT_ERROR, errno::ETIMEDOUT);
            }
            Outcome::Disconnected(cause) => self.ids.disconnected(index, cause),
            Outcome::TimewaitExit => self.ids.mark(index, pending::TIMEWAIT_EXIT),
        }
    }

    /// An attempt ends with this event. A request that nobody has heard of ends in silence.
    fn end_attempt(&mut self, index: usize, event: u16, errno: i32) {
        self.ids.answered(index);
        if self.ids.is_pending(index, pending::CONNECT_REQUEST) {
            self.let_go(index);
            return;
        }
        self.ids.slot_mut(index).set_errno(errno);
        self.ids.unmark(index, pending::CONNECT_RESPONSE);
        self.ids.mark(index, event);
    }
}

impl Ids<'_> {
    fn explain(&self, index: usize, why: NotNow) -> ConnectError {
        match why {
            NotNow::WrongState if self.slot(index).has(flag::OVERDUE) => ConnectError::AlreadyGone,
            NotNow::WrongState => ConnectError::in_state(self.state(index)),
            NotNow::Already => ConnectError::AlreadyEstablished,
            NotNow::Gone => ConnectError::AlreadyGone,
            NotNow::Refused(error) => error,
        }
    }
}
