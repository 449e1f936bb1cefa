//! The scenes of the demo.

use super::super::output::Outcome;
use super::tap::Wire;
use super::{CLIENT, SERVER, Show};
use nanocm::core::wire::Attribute;
use nanocm::future::Service;
use nanocm::{
    Cause, Cm, ConnParam, Connection, Deadline, DisconnectCause, Error, Event, Listener, PortSpace,
    RejectReason, Rejection, SidrStatus,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

/// A port with a listener; the next one has none.
const PORT: u16 = 7471;

pub(super) fn play(client: &Cm, server: &Cm, wire: &Arc<Wire>, show: &Arc<Show>) -> Outcome {
    let listener = server.listen(SocketAddr::new(SERVER, PORT), 0)?;
    let stage = Stage { client, server, listener, wire, show };
    stage.connection()?;
    stage.rejection()?;
    stage.nobody_there()?;
    stage.lost_request()?;
    stage.datagrams()
}

struct Stage<'a> {
    client: &'a Cm,
    server: &'a Cm,
    listener: Listener,
    wire: &'a Wire,
    show: &'a Show,
}

impl Stage<'_> {
    /// Connect with private data, accept, disconnect.
    fn connection(&self) -> Outcome {
        self.show.scene("1. A connection, with private data both ways")?;
        let ((connection, seen), data) = self.meet(b"ping", b"pong")?;
        self.show.check("the listener got the private data \"ping\"", data.starts_with(b"ping\0"));
        let answer = connection.private_data().starts_with(b"pong\0");
        self.show.check("the connecting side got the private data \"pong\"", answer);
        self.part(connection, seen, &["REQ", "REP", "RTU", "DREQ", "DREP"])
    }

    /// A reject with a reason.
    fn rejection(&self) -> Outcome {
        self.show.scene("2. A listener that refuses")?;
        let (connected, rejected) = thread::scope(|scope| {
            let server = scope.spawn(|| {
                let request = self.listener.request(Deadline::after_secs(10))?;
                request
                    .map(|request| request.reject(RejectReason::CONSUMER, b"come back later"))
                    .transpose()
            });
            (self.connect_to(PORT, b""), server.join())
        });
        let told = match connected {
            Err(Error { cause: Cause::Rejected(rejection), .. }) => {
                let Rejection { reason, private_data, .. } = *rejection;
                self.show.text(&format!("  -> rejected: {}", reason.text()))?;
                reason == RejectReason::CONSUMER && private_data.starts_with(b"come back later\0")
            }
            _ => false,
        };
        self.show.check("a reject arrived with its reason (28) and private data", told);
        self.show.check("the listener's reject was sent", matches!(rejected, Ok(Ok(Some(())))));
        self.expect_messages(&["REQ", "REJ"]);
        Ok(())
    }

    /// A port without listener.
    fn nobody_there(&self) -> Outcome {
        self.show.scene("3. A port where nobody listens")?;
        let told = match self.connect_to(PORT + 1, b"") {
            Err(error) => {
                self.show.text(&format!("  -> {error}"))?;
                matches!(error.cause, Cause::Rejected(rejection)
                    if rejection.reason == RejectReason::INVALID_SERVICE_ID)
            }
            Ok(_) => false,
        };
        self.show.check(
            format!("connecting to port {} was rejected: nobody listens (reason 8)", PORT + 1),
            told,
        );
        self.expect_messages(&["REQ", "REJ"]);
        Ok(())
    }

    /// A lost REQ.
    fn lost_request(&self) -> Outcome {
        self.show.scene("4. A lost REQ: the wire drops it, a second later it is sent again")?;
        self.wire.lose_next(Attribute::REQ);
        let ((connection, seen), _) = self.meet(b"again", b"")?;
        let retransmitted = self.client.counters().retransmitted;
        self.show.check("one REQ was lost", self.wire.lost() == 1);
        self.show.check("one message was retransmitted", retransmitted == 1);
        self.part(connection, seen, &["REQ", "REQ", "REP", "RTU", "DREQ", "DREP"])
    }

    /// A datagram service: a question, an answer, no connection.
    fn datagrams(&self) -> Outcome {
        self.show.scene("5. A datagram service: which queue pair serves port 7471?")?;
        let channel = self.server.channel()?;
        let service = self.server.create_id(&channel, PortSpace::Udp)?;
        service.bind(SocketAddr::new(SERVER, PORT))?;
        service.listen(0)?;
        let mut param = ConnParam::new(self.server.next_qpn());
        param.private_data = b"at your service";
        let (found, answered) = thread::scope(|scope| {
            let server = scope.spawn(|| match channel.next(Deadline::after_secs(10))? {
                Some(Event { request: Some(id), .. }) => id.accept(&param).map(|()| Some(id)),
                _ => Ok(None),
            });
            (self.resolve(PORT), server.join())
        });
        let held = match &found {
            Ok(found) => {
                let (qpn, qkey) = (found.qpn(), found.qkey());
                self.show.text(&format!("  -> QPN {qpn:#x} with Q_Key {qkey:#010x}"))?;
                (qpn, qkey) == (param.qpn, param.qkey)
                    && found.private_data().starts_with(b"at your service\0")
            }
            Err(_) => false,
        };
        self.show.check("the service's queue pair number, Q_Key and private data arrived", held);
        self.show.check("the service's answer was sent", matches!(answered, Ok(Ok(Some(_)))));
        let told = matches!(self.resolve(PORT + 1), Err(Error { cause: Cause::SidrRejected(why), .. })
            if why.status == SidrStatus::UNSUPPORTED_SERVICE_ID);
        self.show.check(
            format!("asking for port {} was rejected: nothing serves it (status 1)", PORT + 1),
            told,
        );
        self.expect_messages(&["SIDR_REQ", "SIDR_REP", "SIDR_REQ", "SIDR_REP"]);
        Ok(())
    }

    fn resolve(&self, port: u16) -> Result<Service, Error> {
        let (from, to) = (SocketAddr::new(CLIENT, 0), SocketAddr::new(SERVER, port));
        let deadline = Deadline::after_secs(10);
        self.client.resolve_with(Some(from), to, &ConnParam::new(0), deadline)
    }

    /// Connects both sides; the listener's view of the private data.
    fn meet(
        &self,
        data: &[u8],
        answer: &[u8],
    ) -> Result<((Connection, Connection), Vec<u8>), super::Stop> {
        let (ours, theirs) = thread::scope(|scope| {
            let server = scope.spawn(|| self.accept(answer));
            (self.connect_to(PORT, data), server.join())
        });
        let theirs = theirs.unwrap_or(Ok(None))?;
        let theirs = theirs.ok_or_else(|| {
            super::Failure::new(libc::ETIMEDOUT, "demo", "the listener saw no request".into())
        })?;
        let seen = theirs.private_data().to_vec();
        Ok(((ours?, theirs), seen))
    }

    fn accept(&self, answer: &[u8]) -> Result<Option<Connection>, Error> {
        let Some(request) = self.listener.request(Deadline::after_secs(10))? else {
            return Ok(None);
        };
        let mut param = ConnParam::new(self.server.next_qpn());
        param.private_data = answer;
        request.accept(&param, Deadline::after_secs(10)).map(Some)
    }

    fn connect_to(&self, port: u16, data: &[u8]) -> Result<Connection, Error> {
        let mut param = ConnParam::new(self.client.next_qpn());
        param.private_data = data;
        let (from, to) = (SocketAddr::new(CLIENT, 0), SocketAddr::new(SERVER, port));
        self.client.connect_with(Some(from), to, &param, Deadline::after_secs(10))
    }

    /// Disconnects, and checks how it went.
    fn part(&self, ours: Connection, theirs: Connection, messages: &[&str]) -> Outcome {
        let (we, they) = thread::scope(|scope| {
            let server = scope.spawn(|| theirs.wait_disconnected(Deadline::after_secs(10)));
            (ours.disconnect(Deadline::after_secs(10)), server.join())
        });
        self.show.check(
            "both sides were told of the disconnect",
            matches!(we, Ok(DisconnectCause::Local))
                && matches!(they, Ok(Ok(Some(DisconnectCause::Peer)))),
        );
        self.expect_messages(messages);
        Ok(())
    }

    fn expect_messages(&self, wanted: &[&str]) {
        let sent = self.wire.take_sent();
        self.show.check(format!("the messages were {}", wanted.join(", ")), sent == wanted);
    }
}
