//! Enhanced connection establishment: vendor and options, in three messages in three places.
//!
//! Read first: facts linux-rdma-cm §8 (ECE), wire-formats §2.

use core::borrow::{Borrow, BorrowMut};

use super::{Header, Mad, Rep, Req, SidrRep};

/// What the sender's vendor has to say about its queue pair (`struct ibv_ece`). Carried as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ece {
    /// The vendor's number, 24 bits; 0 for none.
    pub vendor_id: u32,
    /// Its options.
    pub options: u32,
}

impl Ece {
    /// Nothing to say.
    pub const NONE: Ece = Ece { vendor_id: 0, options: 0 };
}

macro_rules! carries_ece {
    ($($Name:ident)*) => {$(
        impl<B: Borrow<Mad>> $Name<B> {
            /// Vendor and options of ECE; the options are the header's attribute modifier.
            #[inline]
            pub fn ece(&self) -> Ece {
                let options = Header(self.0.borrow()).attribute_modifier();
                Ece { vendor_id: self.ece_vendor_id(), options }
            }
        }

        impl<B: BorrowMut<Mad>> $Name<B> {
            /// Sets [`ece`](Self::ece); bits of the vendor beyond the 24th are dropped.
            #[inline]
            pub fn set_ece(&mut self, ece: Ece) -> &mut Self {
                Header(self.0.borrow_mut()).set_attribute_modifier(ece.options);
                self.set_ece_vendor_id(ece.vendor_id);
                self
            }
        }
    )*};
}
carries_ece!(Req Rep SidrRep);
