//! Under tokio, without a thread of nanocm's: one task drives the connection manager whenever its
//! descriptor is readable; all others await connections.
//!
//! `cargo run -p nanocm --example async_tokio`: no privileges, real packets on loopback.

use nanocm::future::{Connection, Listener};
use nanocm::provider::Udp;
use nanocm::{Capacity, Cm, Config, ConnParam, Deadline, Drive, Error, netns, random_seed};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{Interest, unix::AsyncFd};
use tokio::task::JoinSet;

const CONNECTIONS: usize = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A network of its own, where UDP port 4791 is free. Yours would do without.
    netns::isolate()?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(play())
}

async fn play() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config::new(random_seed()?);
    let cm = Cm::over(Udp::new((0, 0))?, config, Capacity::of(1024), Drive::Caller)?;
    let driver = tokio::spawn(drive(cm.clone()));

    let address = "127.0.0.2:4420".parse()?;
    let server = tokio::spawn(serve(Listener::bind(&cm, address, 0)?));
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        clients.spawn(call(cm.clone(), address));
    }
    for called in clients.join_all().await {
        called?;
    }
    server.await??;
    driver.abort();
    println!("{} connections made and ended, {} messages", CONNECTIONS, cm.counters().received);
    Ok(())
}

/// What makes everything else go on.
async fn drive(cm: Cm) -> io::Result<()> {
    // SAFETY: a `Cm` has one descriptor, which is open as long as any clone of it lives.
    let cm = unsafe { AsyncFd::register_with_interest(cm, Interest::READABLE)? };
    loop {
        // Cleared first: what comes while it is driven makes it readable again.
        cm.readable().await?.clear_ready();
        if let Err(error) = cm.get_ref().drive() {
            eprintln!("{error}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn serve(listener: Listener) -> Result<(), Error> {
    let mut connections = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let Some(request) = listener.request(Deadline::after_secs(10)).await else { break };
        connections.spawn(async move {
            let param = ConnParam::new(request.id().cm().next_qpn());
            let connection = request.accept(&param, Deadline::after_secs(5)).await?;
            connection.disconnected(Deadline::after_secs(5)).await;
            Ok(())
        });
    }
    connections.join_all().await.into_iter().collect()
}

async fn call(cm: Cm, peer: SocketAddr) -> Result<(), Error> {
    let from = "127.0.0.1:0".parse().ok();
    let param = ConnParam::new(cm.next_qpn());
    let deadline = Deadline::after_secs(5);
    let connection = Connection::connect_with(&cm, from, peer, &param, deadline).await?;
    connection.disconnect(deadline).await?;
    Ok(())
}
