//! What the appliance needs of the hardware. This is what is to be written for another board.

use nanocm_core::Instant;

/// A board: a network interface, a clock, a way to sleep.
pub trait Board {
    /// Time since any zero. It never goes back.
    fn now(&mut self) -> Instant;

    /// Takes the next Ethernet frame out of the interface, without its FCS; its length. `None` if there is none.
    fn receive(&mut self, frame: &mut [u8]) -> Option<usize>;

    /// Sends an Ethernet frame of 14 to 1514 octets. May wait for the one before to leave.
    fn send(&mut self, frame: &[u8]);

    /// Sleeps until then (`None`: for as long as it likes), or until a frame has come. It may wake early; if a frame
    /// has come since the last [`receive`](Self::receive), it must not sleep.
    fn sleep(&mut self, until: Option<Instant>);

    /// Octets of stack: those that have ever been in use, and all that there are.
    fn stack(&self) -> (usize, usize);

    /// Octets of memory that are given away before the program starts (`.data` and `.bss`).
    fn statics(&self) -> usize;

    /// Frames that are lost: for want of room in the interface, and because they were damaged or too long.
    fn lost(&self) -> (u32, u32);

    /// A line for whoever debugs the board.
    fn print(&mut self, line: &str);
}
