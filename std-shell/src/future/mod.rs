//! Connections as futures: for any executor, and for none in particular.
//!
//! A future here is woken by whoever drives the [`Cm`](crate::Cm): its thread ([`Drive::Thread`](crate::Drive)), or
//! a task of yours that waits until the `Cm` is readable and calls [`Cm::drive`](crate::Cm::drive)
//! (`examples/async_tokio.rs` does so with tokio's `AsyncFd`). Deadlines need no timer of the executor.
//!
//! Dropping a future calls off what it does: the peer hears what it needs to know, nothing is lost that
//! it had not returned, and nothing is left of it.
//!
//! ```
//! # use nanocm::provider::MemNet;
//! # use nanocm::*;
//! use nanocm::future::{Connection, Listener};
//!
//! async fn serve(listener: Listener) -> Result<(), Error> {
//!     while let Some(request) = listener.request(Deadline::NEVER).await {
//!         let qpn = request.id().cm().next_qpn();
//!         let connection = request.accept(&ConnParam::new(qpn), Deadline::after_secs(5)).await?;
//!         connection.disconnected(Deadline::NEVER).await;
//! #       break;
//!     }
//!     Ok(())
//! }
//!
//! async fn call(cm: Cm, peer: std::net::SocketAddr) -> Result<(), Error> {
//!     let connection = Connection::connect(&cm, peer, Deadline::after_secs(5)).await?;
//!     println!("connected to {}", connection.peer());
//!     connection.disconnect(Deadline::after_secs(5)).await?;
//!     Ok(())
//! }
//! # // As an executor: one that asks again and again.
//! # fn run(mut both: std::pin::Pin<Box<dyn Future<Output = ()>>>) {
//! #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! #     while both.as_mut().poll(&mut context).is_pending() {
//! #         std::thread::sleep(std::time::Duration::from_millis(1));
//! #     }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let endpoint = MemNet::new(1).endpoint(&["10.0.0.1".parse()?])?;
//! # let cm = Cm::over(endpoint, Config::new(random_seed()?), Capacity::of(16), Drive::Thread)?;
//! # let peer = "10.0.0.1:4420".parse()?;
//! # let listener = Listener::bind(&cm, peer, 0)?;
//! # let server = std::thread::spawn(|| run(Box::pin(async { serve(listener).await.unwrap() })));
//! # run(Box::pin(async move { call(cm, peer).await.unwrap() }));
//! # server.join().unwrap();
//! # Ok(()) }
//! ```

mod attempt;
mod connection;
mod listener;
mod service;

pub use connection::Connection;
pub use listener::{Listener, Request};
pub use service::Service;
