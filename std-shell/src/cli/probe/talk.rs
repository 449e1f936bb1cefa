//! One conversation: what it can say, what it hears, and that it leaves nothing behind.
//!
//! A conversation has names of its own (communication IDs, queue pair numbers, transaction IDs), so that
//! others can go on beside it. Each datagram that comes in is checked as a frame (`frame.rs`) before anybody
//! looks at its message. Read first: `verdict.rs`; IBTA 12.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use nanocm::PortSpace;
use nanocm::core::ServiceId;
use nanocm_core::wire::{
    Attribute, Drep, Dreq, Header, IpCmHeader, MAD_LEN, Mad, MessageKind, Mra, Rej, RejectReason,
    Rep, Req, Rtu, SidrReq,
};

use super::peer::{Heard, Name, Patience, Peer};
use super::verdict::{Deviation, NO_ANSWER, Stop, Verdict, Want, judge, message, told, words};

/// A request of ours: names, and the message to be sent.
#[derive(Clone)]
pub(super) struct Call {
    /// Communication ID; of a SIDR request its number.
    pub(super) id: u32,
    pub(super) qpn: u32,
    pub(super) tid: u64,
    pub(super) mad: Mad,
}

impl Call {
    pub(super) fn req(&mut self) -> Req<&mut Mad> {
        Req(&mut self.mad)
    }

    /// A REJ of it, for this reason.
    pub(super) fn rej(&self, reason: u64) -> Want {
        let names = [("transaction_id", self.tid), ("remote_comm_id", self.id.into())];
        let what = [("message_rejected", 0), ("reason", reason)];
        message(Attribute::REJ, &[names, what].concat())
    }

    /// A REP to it.
    pub(super) fn rep(&self) -> Want {
        let names = [("transaction_id", self.tid), ("remote_comm_id", self.id.into())];
        message(Attribute::REP, &names)
    }

    /// A SIDR_REP to it, with this status.
    pub(super) fn sidr_rep(&self, status: u64) -> Want {
        let names = [("transaction_id", self.tid), ("request_id", self.id.into())];
        message(Attribute::SIDR_REP, &[&names[..], &[("status", status)]].concat())
    }
}

/// A connection as its REP tells of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) tid: u64,
    pub(super) ours: u32,
    pub(super) theirs: u32,
    pub(super) their_qpn: u32,
}

impl Link {
    pub(super) fn of(rep: &Mad) -> Link {
        let rep = Rep(rep);
        Link {
            tid: rep.transaction_id(),
            ours: rep.remote_comm_id(),
            theirs: rep.local_comm_id(),
            their_qpn: rep.local_qpn(),
        }
    }

    pub(super) fn rtu(&self) -> Mad {
        let mut mad = [0; MAD_LEN];
        Rtu::emit(&mut mad, self.tid).set_local_comm_id(self.ours).set_remote_comm_id(self.theirs);
        mad
    }

    pub(super) fn dreq(&self, tid: u64) -> Mad {
        let mut mad = [0; MAD_LEN];
        Dreq::emit(&mut mad, tid)
            .set_local_comm_id(self.ours)
            .set_remote_comm_id(self.theirs)
            .set_remote_qpn(self.their_qpn);
        mad
    }

    pub(super) fn rej(&self, rejected: MessageKind, reason: RejectReason) -> Mad {
        let mut mad = [0; MAD_LEN];
        Rej::emit(&mut mad, self.tid)
            .set_local_comm_id(self.ours)
            .set_remote_comm_id(self.theirs)
            .set_message_rejected(rejected)
            .set_reason(reason);
        mad
    }

    pub(super) fn mra(&self, service_timeout: u8) -> Mad {
        let mut mad = [0; MAD_LEN];
        Mra::emit(&mut mad, self.tid)
            .set_local_comm_id(self.ours)
            .set_remote_comm_id(self.theirs)
            .set_message_mraed(MessageKind::REP)
            .set_service_timeout(service_timeout);
        mad
    }

    /// The DREP to a DREQ of ours.
    pub(super) fn drep(&self, tid: u64) -> Want {
        let ids = [("local_comm_id", self.theirs.into()), ("remote_comm_id", self.ours.into())];
        message(Attribute::DREP, &[&[("transaction_id", tid)][..], &ids].concat())
    }
}

/// So long nobody looks whether a signal has come.
const TURN: Duration = Duration::from_millis(20);

/// For what a conversation has begun, once a signal has come. A peer that takes longer to answer is not
/// waited for.
const FAREWELL: Duration = Duration::from_millis(150);

/// More messages than any conversation has: a peer that sends without end is not listened to for ever.
const MOST: usize = 100;

/// One conversation with the peer.
pub(super) struct Talk<'p> {
    pub(super) peer: &'p Peer,
    pub(super) patience: Patience,
    /// What the peer's datagrams have in their MAD header: Send, no status.
    pub(super) any_method: bool,
    /// The peer's DREQs are answered as they come.
    pub(super) agrees: bool,
    /// Which queue pair of ours has been named.
    pub(super) our_qp: u32,
    is_closing: bool,
    inbox: Receiver<Heard>,
    tell: SyncSender<Heard>,
    /// The upper half of its transaction IDs.
    tids: u32,
    seen: Vec<String>,
    /// How many datagrams.
    heard: usize,
    /// Something was sent again, and may be answered again.
    sent_again: bool,
    verdict: Verdict,
    /// Requests without an answer.
    asked: Vec<(u32, u64)>,
    links: Vec<Link>,
}

impl<'p> Talk<'p> {
    pub(super) fn new(peer: &'p Peer, patience: Patience) -> Talk<'p> {
        let (tell, inbox) = sync_channel(2 * MOST);
        let tids = peer.random() as u32;
        peer.listen_for(Name::Tid(tids), &tell);
        Talk {
            peer,
            patience,
            any_method: false,
            agrees: true,
            is_closing: false,
            our_qp: 1,
            inbox,
            tell,
            tids,
            seen: Vec::new(),
            heard: 0,
            sent_again: false,
            verdict: Verdict::AsSpecified,
            asked: Vec::new(),
            links: Vec::new(),
        }
    }

    /// What was heard, in a few words.
    pub(super) fn seen(&self) -> String {
        self.seen.join(", ")
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }

    pub(super) fn note(&mut self, what: String) {
        self.seen.push(what);
    }

    pub(super) fn count(&mut self, verdict: Verdict) {
        self.verdict = self.verdict.max(verdict);
    }

    /// A new transaction ID: all 64 bits are in use.
    pub(super) fn new_tid(&self) -> u64 {
        u64::from(self.tids) << 32 | self.peer.random() & 0xffff_ffff
    }

    /// A communication ID, or number of a SIDR request, that is this conversation's.
    pub(super) fn new_id(&self) -> u32 {
        let id = (self.peer.random() as u32).max(1);
        self.peer.listen_for(Name::Id(id), &self.tell);
        id
    }

    /// A good REQ to the listener.
    pub(super) fn call(&self) -> Call {
        self.call_service(self.service(PortSpace::Tcp))
    }

    /// A good REQ to a service that nobody has: locally administered, and random.
    pub(super) fn call_nobody(&self) -> Call {
        self.call_service(self.nobodys_service())
    }

    pub(super) fn service(&self, space: PortSpace) -> ServiceId {
        ServiceId::new(space, self.peer.port())
    }

    pub(super) fn nobodys_service(&self) -> ServiceId {
        ServiceId(2 << 56 | self.peer.random() >> 8)
    }

    fn call_service(&self, service: ServiceId) -> Call {
        let (id, qpn, tid) = (self.new_id(), self.peer.new_qpn(), self.new_tid());
        let mut mad = [0; MAD_LEN];
        let random = self.peer.random();
        Req::emit(&mut mad, tid)
            .set_local_comm_id(id)
            .set_service_id(service)
            .set_local_ca_guid(self.peer.ca_guid)
            .set_local_qpn(qpn)
            .set_responder_resources(1)
            .set_initiator_depth(1)
            .set_remote_cm_response_timeout(20)
            // A REP that is lost comes again while it is waited for.
            .set_local_cm_response_timeout(18)
            .set_starting_psn(random as u32 & 0xff_ffff)
            .set_retry_count(7)
            .set_partition_key(0xffff)
            .set_path_mtu(self.peer.mtu_code.min(3))
            .set_rnr_retry_count(7)
            .set_max_cm_retries(15)
            .set_primary_local_lid(0xffff)
            .set_primary_remote_lid(0xffff)
            .set_primary_local_gid(self.peer.local_gid())
            .set_primary_remote_gid(self.peer.remote_gid())
            .set_primary_flow_label((random >> 32) as u32 & 0xf_ffff)
            .set_primary_hop_limit(64)
            .set_primary_local_ack_timeout(17)
            .set_ip_cm(&self.ip_cm());
        Call { id, qpn, tid, mad }
    }

    /// A good SIDR_REQ.
    pub(super) fn question(&self, service: ServiceId) -> Call {
        let (id, tid) = (self.new_id(), self.new_tid());
        let mut mad = [0; MAD_LEN];
        SidrReq::emit(&mut mad, tid)
            .set_request_id(id)
            .set_partition_key(0xffff)
            .set_service_id(service)
            .set_ip_cm(&self.ip_cm());
        Call { id, qpn: 0, tid, mad }
    }

    fn ip_cm(&self) -> IpCmHeader {
        IpCmHeader {
            source_port: self.peer.random() as u16 | 0x8000,
            source: self.peer.local_gid(),
            destination: self.peer.remote_gid(),
        }
    }

    /// Asks for a connection and is accepted.
    pub(super) fn accepted(&mut self) -> Result<Link, Stop> {
        let call = self.call();
        self.accepted_as(&call)
    }

    pub(super) fn accepted_as(&mut self, call: &Call) -> Result<Link, Stop> {
        let rep = self.exchange(&call.mad, &[call.rep()])?;
        let rep = rep.ok_or_else(|| Deviation::stop(NO_ANSWER, "REP", "nothing"))?;
        Ok(Link::of(&rep))
    }

    /// The same, and says that it is ready to use.
    pub(super) fn connected(&mut self) -> Result<Link, Stop> {
        let link = self.accepted()?;
        self.send(&link.rtu());
        Ok(link)
    }

    /// Asks for the end of a connection, to which the peer must agree.
    pub(super) fn disconnect(&mut self, link: &Link) -> Result<(), Stop> {
        let tid = self.new_tid();
        self.exchange(&link.dreq(tid), &[link.drep(tid)]).map(drop)
    }

    /// Sends a message in a right frame.
    pub(super) fn send(&mut self, mad: &Mad) {
        let listeners = self.peer.port() != 0;
        if Header(mad).attribute() == Attribute::REQ && listeners {
            let (id, tid) = (Req(mad).local_comm_id(), Req(mad).transaction_id());
            self.asked.retain(|(asked, _)| *asked != id);
            if !self.links.iter().any(|link| link.ours == id) {
                self.asked.push((id, tid));
            }
        }
        self.peer.send(&self.peer.frame(mad));
    }

    /// Sends a message and judges what follows. Where silence is no answer it is sent up to three times:
    /// datagrams get lost.
    pub(super) fn exchange(&mut self, mad: &Mad, wants: &[Want]) -> Result<Option<Mad>, Stop> {
        self.ask(&mut |talk| talk.send(mad), wants)
    }

    /// The same with any UDP payload.
    pub(super) fn exchange_payload(
        &mut self,
        payload: &[u8],
        wants: &[Want],
    ) -> Result<Option<Mad>, Stop> {
        self.ask(&mut |talk| talk.peer.send(payload), wants)
    }

    /// Nothing comes by itself, for as long as silence takes.
    pub(super) fn silence(&mut self) -> Result<(), Stop> {
        self.ask(&mut |_| {}, &[super::verdict::silence()]).map(drop)
    }

    fn ask(
        &mut self,
        send: &mut dyn FnMut(&mut Self),
        wants: &[Want],
    ) -> Result<Option<Mad>, Stop> {
        let silence = wants.iter().find(|want| want.is_silence());
        let (tries, time) = match silence {
            Some(_) => (1, self.patience.silence),
            None => (3, self.patience.answer),
        };
        let begin = Instant::now();
        let (mut sent, mut end) = (0, begin + time);
        loop {
            let now = Instant::now();
            if sent < tries && now >= begin + time * sent / tries {
                send(self);
                self.sent_again |= sent > 0;
                sent += 1;
            }
            let next_try = if sent < tries { begin + time * sent / tries } else { end };
            let Some(mad) = self.take(next_try.min(end))? else {
                if Instant::now() < end {
                    continue;
                }
                break;
            };
            let attribute = Header(&mad).attribute();
            let wanted = wants.iter().any(|want| want.is(attribute));
            if attribute == Attribute::MRA && !wanted {
                // The answer takes longer; 20 s is as long as anybody waits here.
                end = (Instant::now() + self.patience.answer).min(begin + Duration::from_secs(20));
                continue;
            }
            // "Any REJ" is none that says that there is no listener.
            let nobody = attribute == Attribute::REJ && Rej(&mad).reason().0 == 8;
            if nobody && !wants.iter().any(|want| want.has("reason", 8)) {
                return Err(Deviation::stop("which message it is", words(wants), told(&mad)));
            }
            let verdict = judge(&mad, wants)?;
            self.count(verdict);
            return Ok(Some(mad));
        }
        let Some(silence) = silence else {
            let seen = format!("nothing in {:.1} s", time.as_secs_f32());
            return Err(Deviation::stop(NO_ANSWER, words(wants), seen));
        };
        self.count(silence.verdict());
        self.note(format!("nothing in {} ms", time.as_millis()));
        Ok(None)
    }

    /// What comes in until then; it is a right frame. A DREQ is answered.
    pub(super) fn take(&mut self, until: Instant) -> Result<Option<Mad>, Stop> {
        let heard = loop {
            if self.peer.is_interrupted() && !self.is_closing {
                return Err(Stop::Interrupted);
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.inbox.recv_timeout(left.min(TURN)) {
                Ok(heard) => break heard,
                Err(_) if left > TURN => {}
                Err(_) => return Ok(None),
            }
        };
        self.heard += 1;
        if self.heard > MOST {
            let most = format!("no more than {MOST}");
            return Err(Deviation::stop("how many datagrams come", most, "more"));
        }
        let mad = self.check(&heard)?;
        self.note(told(&mad));
        let names = Drep(&mad);
        let (theirs, ours) = (names.local_comm_id(), names.remote_comm_id());
        match Header(&mad).attribute() {
            Attribute::REP => {
                self.asked.retain(|(id, _)| *id != ours);
                let link = Link::of(&mad);
                if !self.links.iter().any(|l| (l.ours, l.theirs) == (ours, theirs)) {
                    self.links.push(link);
                }
            }
            Attribute::REJ => self.asked.retain(|(id, _)| *id != ours),
            Attribute::DREP => self.links.retain(|link| link.ours != ours),
            Attribute::DREQ if self.agrees => {
                self.links.retain(|link| (link.ours, link.theirs) != (ours, theirs));
                self.agree(&mad);
            }
            _ => {}
        }
        Ok(Some(mad))
    }

    /// Answers a DREQ of the peer's.
    pub(super) fn agree(&mut self, dreq: &Mad) {
        let dreq = Dreq(dreq);
        let mut drep = [0; MAD_LEN];
        Drep::emit(&mut drep, dreq.transaction_id())
            .set_local_comm_id(dreq.remote_comm_id())
            .set_remote_comm_id(dreq.local_comm_id());
        self.send(&drep);
    }

    /// Withdraws requests that were not answered, and ends what stands, as far as the peer lets it; after a
    /// signal in a hurry.
    pub(super) fn close(&mut self) {
        (self.is_closing, self.agrees) = (true, true);
        let heard = self.seen.len();
        let asked = std::mem::take(&mut self.asked);
        for &(id, tid) in &asked {
            let withdrawal = self.withdrawal(id, tid);
            self.send(&withdrawal);
        }
        // An answer may have crossed that.
        self.hear_while(|talk| !asked.is_empty() || talk.sent_again);
        for _ in 0..3 {
            // One that is over is not in the list any more.
            for link in self.links.clone() {
                let tid = self.new_tid();
                self.send(&link.dreq(tid));
            }
            self.hear_while(|talk| !talk.links.is_empty());
            if self.peer.is_interrupted() {
                break;
            }
        }
        // This was no part of it.
        self.seen.truncate(heard);
    }

    /// Hears what comes in the end while something is missing, for as long as silence takes; a signal
    /// shortens that.
    fn hear_while(&mut self, is_missing: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while is_missing(self) {
            let longest = if self.peer.is_interrupted() { FAREWELL } else { Duration::MAX };
            let (now, until) = (Instant::now(), begin + self.patience.silence.min(longest));
            if now >= until {
                return;
            }
            let _ = self.take(until.min(now + TURN));
        }
    }

    /// A REJ 4: we have waited long enough for an answer to this request.
    pub(super) fn withdrawal(&self, id: u32, tid: u64) -> Mad {
        let mut mad = [0; MAD_LEN];
        Rej::emit(&mut mad, tid)
            .set_local_comm_id(id)
            .set_message_rejected(MessageKind::OTHER)
            .set_reason(RejectReason::TIMEOUT)
            .set_additional_info(&self.peer.ca_guid.to_be_bytes());
        mad
    }
}
