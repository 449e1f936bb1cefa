//! The wire of the demo: shows each message as it is sent, and loses one when told to.

use super::super::events;
use super::super::output::Object;
use super::super::summary::summary;
use super::Show;
use nanocm::core::wire::{Attribute, Message, View};
use nanocm::core::{PortEvent, ScopedIp};
use nanocm::provider::{
    MadTransport, OpenError, Outgoing, Received, SendFailure, Source, TransportCounters,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What both taps share.
pub(super) struct Wire {
    show: Arc<Show>,
    zero: Instant,
    /// The attribute of the next message to lose; 0: none.
    lose: AtomicU16,
    lost: AtomicU32,
    /// The names of the messages sent in this scene.
    sent: Mutex<Vec<&'static str>>,
}

impl Wire {
    pub(super) fn new(show: Arc<Show>) -> Arc<Wire> {
        Arc::new(Wire {
            show,
            zero: Instant::now(),
            lose: AtomicU16::new(0),
            lost: AtomicU32::new(0),
            sent: Mutex::new(Vec::new()),
        })
    }

    /// Loses the next message of this kind.
    pub(super) fn lose_next(&self, message: Attribute) {
        self.lose.store(message.0, Ordering::SeqCst);
    }

    /// How many were lost.
    pub(super) fn lost(&self) -> u32 {
        self.lost.load(Ordering::SeqCst)
    }

    /// The messages sent since the last question.
    pub(super) fn take_sent(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.sent.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Shows a message that is sent. True if it is to be lost.
    fn see(&self, outgoing: &Outgoing) -> bool {
        let attribute = View::new(&outgoing.mad).attribute();
        let lost = self.lose.compare_exchange(attribute.0, 0, Ordering::SeqCst, Ordering::SeqCst);
        let is_lost = attribute.0 != 0 && lost.is_ok();
        if is_lost {
            self.lost.fetch_add(1, Ordering::SeqCst);
        }
        let name = attribute.name().unwrap_or("?");
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        // What cannot be shown does not stop the messages.
        let _ = self.print(name, outgoing, is_lost);
        is_lost
    }

    fn print(&self, name: &str, outgoing: &Outgoing, is_lost: bool) -> io::Result<()> {
        let (from, to) = (outgoing.path.local_gid().to_ip(), outgoing.path.remote_gid().to_ip());
        let fields = Message::parse(&outgoing.mad).map(|message| summary(&message));
        let fields = fields.unwrap_or_default().join(", ");
        let millis = self.zero.elapsed().as_secs_f64() * 1000.0;
        let arrow = if is_lost { "--x " } else { "--->" };
        let note = if is_lost { "   (lost on the way)" } else { "" };
        let line = format!("{millis:9.1} ms  {from} {arrow} {to}  {name:<8} {fields}{note}");
        let mut object = Object::new();
        object.insert("event".into(), "MESSAGE".into());
        object.insert("time".into(), events::now());
        object.insert("from".into(), from.to_string().into());
        object.insert("to".into(), to.to_string().into());
        object.insert("message".into(), name.into());
        object.insert("fields".into(), fields.into());
        object.insert("lost".into(), is_lost.into());
        self.show.either(&object, line.trim_end())
    }
}

/// A transport with an ear on it.
pub(super) struct Tap<T> {
    inner: T,
    wire: Arc<Wire>,
}

impl<T> Tap<T> {
    pub(super) fn new(inner: T, wire: Arc<Wire>) -> Tap<T> {
        Tap { inner, wire }
    }
}

impl<T: MadTransport> MadTransport for Tap<T> {
    fn open(&mut self, local: IpAddr, scope: u32) -> Result<(), OpenError> {
        self.inner.open(local, scope)
    }

    fn ports(&mut self, f: &mut dyn FnMut(PortEvent)) -> io::Result<()> {
        self.inner.ports(f)
    }

    fn recv(&mut self, f: &mut dyn FnMut(Received<'_>)) -> io::Result<usize> {
        self.inner.recv(f)
    }

    fn send(
        &mut self,
        batch: &[Outgoing],
        failed: &mut dyn FnMut(SendFailure<'_>),
    ) -> io::Result<usize> {
        for (done, outgoing) in batch.iter().enumerate() {
            if !self.wire.see(outgoing)
                && self.inner.send(std::slice::from_ref(outgoing), failed)? == 0
            {
                return Ok(done);
            }
        }
        Ok(batch.len())
    }

    fn source_for(
        &mut self,
        source: Option<ScopedIp>,
        destination: SocketAddr,
    ) -> io::Result<Source> {
        self.inner.source_for(source, destination)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.inner.fd()
    }

    fn counters(&self) -> TransportCounters {
        self.inner.counters()
    }
}
