//! From a datagram to a typed message.
//!
//! Read first: IBTA 12 (communication management), IBTA 13 (the MAD header).

use super::mad::{BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND};
use super::{
    Apr, Attribute, Drep, Dreq, Header, Lap, Mad, MadError, Mra, Rej, Rep, Req, Rtu, SidrRep,
    SidrReq, View,
};

macro_rules! messages {
    ($($Name:ident)*) => {
        /// A CM message, borrowed from the 256 octets it came in.
        #[derive(Clone, Copy, Debug)]
        pub enum Message<'a> {
            $(
                #[doc = concat!("See [`", stringify!($Name), "`].")]
                $Name($Name<&'a Mad>),
            )*
        }

        impl<'a> Message<'a> {
            /// Checks the length and the header of a datagram, and says which message it is.
            ///
            /// What is not checked can't make a message unreadable: Status, attribute modifier and
            /// reserved bits.
            #[inline]
            pub fn parse(datagram: &'a [u8]) -> Result<Message<'a>, MadError> {
                let Ok(mad) = <&Mad>::try_from(datagram) else {
                    return Err(MadError::Length(datagram.len()));
                };
                let header = Header(mad);
                if header.base_version() != BASE_VERSION {
                    return Err(MadError::BaseVersion(header.base_version()));
                }
                if header.class() != CLASS {
                    return Err(MadError::Class(header.class()));
                }
                if header.class_version() != CLASS_VERSION {
                    return Err(MadError::ClassVersion(header.class_version()));
                }
                if header.method() != METHOD_SEND {
                    return Err(MadError::Method(header.method()));
                }
                match header.attribute() {
                    $($Name::<()>::ATTRIBUTE => Ok(Message::$Name($Name(mad))),)*
                    other => Err(MadError::Attribute(other.0)),
                }
            }

            /// The 256 octets.
            #[inline]
            pub fn mad(&self) -> &'a Mad {
                match self {
                    $(Message::$Name(message) => message.0,)*
                }
            }

            /// Which message it is.
            #[inline]
            pub fn attribute(&self) -> Attribute {
                match self {
                    $(Message::$Name(_) => $Name::<()>::ATTRIBUTE,)*
                }
            }
        }
    };
}

messages! { Req Mra Rej Rep Rtu Dreq Drep SidrReq SidrRep Lap Apr }

impl<'a> Message<'a> {
    /// The lossless view, for printing.
    #[inline]
    pub fn view(&self) -> View<'a> {
        View::new(self.mad())
    }

    /// The transaction ID in the MAD header.
    #[inline]
    pub fn transaction_id(&self) -> u64 {
        Header(self.mad()).transaction_id()
    }
}
