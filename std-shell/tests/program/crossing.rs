//! Both sides disconnect at once.

use crate::isolated;
use crate::process::*;
use std::time::Duration;

/// Each has asked before it hears that the other has.
#[test]
fn requests_to_disconnect_that_cross_end_well() {
    isolated!();
    veth();
    let neighbour = Neighbour::new();
    let mut listener = neighbour.start("listen 10.9.0.3:7471 --json");
    listener.event("LISTENING");
    let mut client = start("connect 10.9.0.3:7471 --hold 300 --json");
    client.event("ESTABLISHED");
    listener.event("CONNECT_REQUEST");
    listener.event("ESTABLISHED");
    // Both first requests are lost: the next one, of whichever side, meets one that has asked too.
    neighbour.cut();
    listener.signal("TERM");
    client.silent_for(Duration::from_millis(600));
    neighbour.mend();
    assert_eq!(client.event("DISCONNECTED")["cause"], "local");
    assert_eq!(listener.event("DISCONNECTED")["cause"], "local");
    client.end().with(0);
    listener.end().with(0);
}
