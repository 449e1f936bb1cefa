//! Small codes inside messages: which message an MRA or REJ speaks of, the status of a SIDR_REP, the
//! status of an APR.
//!
//! Every value is legal; those we know have a name and a text. Read first: IBTA 12, tables 107, 108,
//! 116 and 120.

/// Defines a newtype over a code: constants, stable names, texts in plain words.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        $Name:ident($ty:ident), else $unknown:literal;
        $($value:literal $CONST:ident $name:literal $text:literal)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $Name(pub $ty);

        impl $Name {
            $(
                #[doc = concat!("`", $name, "`: ", $text, ".")]
                pub const $CONST: $Name = $Name($value);
            )*

            /// Every code that has a name, in ascending order.
            pub const ALL: &'static [$Name] = &[$($Name::$CONST),*];

            /// The stable name of a code, if it has one.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($name),)*
                    _ => None,
                }
            }

            /// What a code means: a part of a sentence, without capital and full stop.
            pub const fn text(self) -> &'static str {
                match self.0 {
                    $($value => $text,)*
                    _ => $unknown,
                }
            }

            /// The code of a stable name.
            pub fn from_name(name: &str) -> Option<$Name> {
                match name {
                    $($name => Some($Name::$CONST),)*
                    _ => None,
                }
            }
        }

        code_field!($Name($ty));

        impl core::fmt::Debug for $Name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        }

        /// The number, and the name if there is one: `8 (invalid-service-id)`.
        impl core::fmt::Display for $Name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "{} ({name})", self.0),
                    None => write!(f, "{}", self.0),
                }
            }
        }
    };
}

codes! {
    /// Which message an MRA or REJ speaks of (IBTA 12, tables 107 and 108).
    MessageKind(u8), else "an unknown message";
    0 REQ "REQ" "the request"
    1 REP "REP" "the reply"
    2 OTHER "other" "another message, or none (in an MRA: LAP)"
}

codes! {
    /// The status of a SIDR_REP (IBTA 12, table 120).
    SidrStatus(u8), else "the peer gave a status we don't know";
    0 VALID "valid" "the queue pair number and Q_Key are valid"
    1 UNSUPPORTED_SERVICE_ID "unsupported-service-id" "nothing serves that service ID"
    2 REJECTED "rejected" "the service rejected the request"
    3 NO_QP "no-qp" "the peer has no queue pair left"
    4 REDIRECT "redirect" "the peer wants to be asked elsewhere"
    5 UNSUPPORTED_VERSION "unsupported-version" "the peer does not support this version of SIDR"
}

codes! {
    /// The status of an APR (IBTA 12, table 116).
    ApStatus(u8), else "the peer gave a status we don't know";
    0 LOADED "loaded" "the alternate path was loaded"
    1 INVALID_COMM_INSTANCE "invalid-comm-instance" "the peer does not know this connection"
    2 UNSUPPORTED "unsupported" "the peer does not support alternate paths"
    3 PORT_REJECTED "port-rejected" "the peer rejected the port to fail over to"
    4 REDIRECT "redirect" "the peer wants to be asked elsewhere"
    5 SAME_AS_PRIMARY "same-as-primary" "the alternate path is the primary path"
    6 QPN_MISMATCH "qpn-mismatch" "the queue pair is not that of the connection"
    7 LID_REJECTED "lid-rejected" "the peer rejected the LID"
    8 GID_REJECTED "gid-rejected" "the peer rejected the GID"
    9 FLOW_LABEL_REJECTED "flow-label-rejected" "the peer rejected the flow label"
    10 TRAFFIC_CLASS_REJECTED "traffic-class-rejected" "the peer rejected the traffic class"
    11 HOP_LIMIT_REJECTED "hop-limit-rejected" "the peer rejected the hop limit"
    12 PACKET_RATE_REJECTED "packet-rate-rejected" "the peer rejected the packet rate"
    13 SL_REJECTED "sl-rejected" "the peer rejected the service level"
}
