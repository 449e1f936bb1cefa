//! What the application wants: the operations.

mod bind;
mod connect;
mod resolve;

pub use bind::*;
pub use connect::*;
pub use resolve::*;
