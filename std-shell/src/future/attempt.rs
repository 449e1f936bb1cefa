//! The steps of an attempt: each waits for its event, and knows those that end it.

use crate::channel::Event;
use crate::cm::Cm;
use crate::deadline::Deadline;
use crate::error::{Cause, Error, Rejection, SidrRejection};
use crate::id::Id;
use crate::queue::Inbox;
use nanocm_core::{ConnParam, EventKind, PortSpace, ServiceId};
use std::net::SocketAddr;
use std::time::Duration;

/// A new identifier with a route to `peer`, and where its events come.
pub(super) async fn route(
    cm: &Cm,
    space: PortSpace,
    local: Option<SocketAddr>,
    peer: SocketAddr,
    deadline: Deadline,
) -> Result<(Id, Inbox), Error> {
    let inbox = Inbox::new(cm, None);
    let id = cm.create_id_in(&inbox, space)?;
    let local = match local {
        Some(local) if !local.ip().to_canonical().is_unspecified() => local,
        // The route's address; the port as told.
        any => {
            let mut source = cm.source_for(peer)?;
            source.set_port(any.map_or(0, |any| any.port()));
            source
        }
    };
    // Here it can still be said who has the address's UDP port.
    cm.open(local)?;
    let service = ServiceId::new(space, peer.port());
    let attempt = Attempt { id: &id, inbox: &inbox, peer, service, deadline };
    id.resolve_addr(Some(local), peer, deadline.for_resolving())?;
    attempt.until("resolve", |kind| matches!(kind, EventKind::AddrResolved)).await?;
    id.resolve_route(deadline.for_resolving())?;
    attempt.until("resolve", |kind| matches!(kind, EventKind::RouteResolved)).await?;
    Ok((id, inbox))
}

/// An attempt to connect, on either side, or to resolve a service.
pub(super) struct Attempt<'a> {
    pub(super) id: &'a Id,
    pub(super) inbox: &'a Inbox,
    pub(super) peer: SocketAddr,
    pub(super) service: ServiceId,
    pub(super) deadline: Deadline,
}

impl Attempt<'_> {
    pub(super) async fn until_established(&self, operation: &'static str) -> Result<Event, Error> {
        self.until(operation, |kind| matches!(kind, EventKind::Established)).await
    }

    /// Waits for the wanted event; one that ends the attempt is an error.
    pub(super) async fn until(
        &self,
        operation: &'static str,
        wanted: impl Fn(&EventKind) -> bool,
    ) -> Result<Event, Error> {
        loop {
            let event = self.inbox.event(self.deadline).await;
            let event = event.ok_or_else(|| self.failed(operation, Cause::TimedOut))?;
            let cause = match event.kind {
                ref kind if wanted(kind) => return Ok(event),
                EventKind::AddrError(errno)
                | EventKind::RouteError(errno)
                | EventKind::ConnectError(errno) => Cause::Host(errno),
                EventKind::DeviceRemoval => Cause::Host(libc::ENODEV),
                EventKind::Unreachable(why) => Cause::Unreachable(why),
                EventKind::Rejected(reason) => Cause::Rejected(Box::new(Rejection {
                    reason,
                    service: self.service,
                    private_data: event.private_data,
                    additional_info: event.additional_info,
                })),
                EventKind::SidrRejected(status) => Cause::SidrRejected(Box::new(SidrRejection {
                    status,
                    service: self.service,
                    private_data: event.private_data,
                    additional_info: event.additional_info,
                })),
                EventKind::Disconnected(_) => Cause::Closed,
                _ => continue,
            };
            return Err(self.failed(operation, cause));
        }
    }

    pub(super) fn failed(&self, operation: &'static str, cause: Cause) -> Error {
        cause.during(operation, self.id.local_addr(), Some(self.peer))
    }
}

/// librdmacm's `rdma_create_ep` waits so long for each step of resolving.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(2);

/// The engine gives up so much later than the call, which so says what happened.
const SLACK: Duration = Duration::from_secs(1);

impl Deadline {
    fn for_resolving(self) -> Duration {
        let left = self.remaining().unwrap_or(RESOLVE_TIMEOUT);
        left.clamp(Duration::from_millis(1), RESOLVE_TIMEOUT)
    }

    /// The engine shall try as long as the caller waits.
    pub(super) fn applied_to<'a>(self, param: &ConnParam<'a>) -> ConnParam<'a> {
        let mut param = *param;
        param.timeout = param.timeout.or(self.remaining().map(|left| left.saturating_add(SLACK)));
        param
    }
}
