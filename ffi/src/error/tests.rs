use super::*;
use crate::types::tests::{block, variants};
use nanocm_core::State;

/// These numbers are on both sides of a border that is compiled apart: none ever changes.
const PINNED: &str = "
0 NCM_OK
1 NCM_EMPTY
10 NCM_NULL_POINTER
11 NCM_MISALIGNED
12 NCM_BAD_SIZE
13 NCM_UNKNOWN_FIELDS
14 NCM_INVALID_VALUE
15 NCM_NOT_AN_ENGINE
16 NCM_IN_CALL
17 NCM_WRONG_THREAD
18 NCM_BUFFER_TOO_SMALL
19 NCM_PANICKED
20 NCM_NOT_SUPPORTED
30 NCM_MEMORY_TOO_SMALL
31 NCM_BAD_CAPACITY
32 NCM_TOO_MANY_CONNECTIONS
33 NCM_BAD_PREFIX
34 NCM_BAD_PORT_RANGE
35 NCM_BAD_TIMER
36 NCM_PORT_MAP_TOO_SMALL
37 NCM_BUSY
38 NCM_BAD_MTU
50 NCM_NO_SUCH_ID
51 NCM_INVALID_STATE
52 NCM_FULL
53 NCM_ADDR_NOT_LOCAL
54 NCM_SCOPE_MISSING
55 NCM_PORT_IN_USE
56 NCM_TUPLE_IN_USE
57 NCM_PORTS_EXHAUSTED
58 NCM_WRONG_KEY
59 NCM_LISTEN_CONFLICT
60 NCM_FAMILY_MISMATCH
61 NCM_NOT_A_DESTINATION
62 NCM_OTHER_DESTINATION
63 NCM_OTHER_SOURCE
64 NCM_SCOPE_MISMATCH
65 NCM_ZERO_TIMEOUT
66 NCM_WRONG_PORT_SPACE
67 NCM_PRIVATE_DATA_TOO_LONG
68 NCM_QPN_IN_USE
69 NCM_ALREADY_GONE
70 NCM_ALREADY_ESTABLISHED
71 NCM_STALE_REQUEST
72 NCM_WRONG_LINK
73 NCM_NUMBER_TOO_LARGE
74 NCM_DEVICE_GONE
99 NCM_OTHER_ERROR
";

#[test]
fn numbers_of_errors_never_change() {
    let lines = PINNED.trim().lines().map(|line| line.split_once(' ').unwrap());
    let pinned: Vec<_> = lines.map(|(number, name)| (number.parse().unwrap(), name)).collect();
    let table: Vec<_> = TABLE.iter().map(|e| (e.0 as i32, e.1.to_str().unwrap())).collect();
    assert_eq!(table, pinned);
    // The enumeration has no more than the table.
    let source = block(include_str!("../error.rs"), "pub enum ncm_error_code");
    assert_eq!(source.matches(" = ").count(), pinned.len());
}

#[test]
fn every_code_has_a_name_a_text_and_an_errno() {
    for code in -1..200 {
        let text = |pointer| {
            // SAFETY: a static string.
            unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
        };
        let (name, words, errno) =
            (text(ncm_error_name(code)), text(ncm_error_text(code)), ncm_error_errno(code));
        if TABLE.iter().any(|entry| entry.0 as i32 == code) {
            assert!(name.starts_with("NCM_") && words.len() > 5, "{code} {name}: {words}");
            assert_eq!(errno == 0, code == 0, "{name}");
        } else {
            assert_eq!((name, words, errno), ("unknown", "unknown error code", EINVAL));
        }
    }
}

/// Every error of the core, what it is here, and that both say the same errno.
#[test]
fn every_error_of_the_core_has_a_code_with_its_errno() {
    let core = include_str!("../../../core/src/error.rs");
    let here = include_str!("../error.rs");
    for (name, mapping) in [
        ("CreateError", "CreateError: "),
        ("BindError", "BindError:\n"),
        ("ListenError", "ListenError:\n"),
        ("ResolveError", "impl From<ResolveError>"),
        ("ConnectError", "ConnectError:\n"),
        ("OpError", "OpError:\n"),
    ] {
        let (_, mapping) = here.split_once(mapping).unwrap();
        let end = if name == "ResolveError" { "_ =>" } else { ";\n" };
        let (mapping, _) = mapping.split_once(end).unwrap();
        for variant in variants(core, &format!("    {name} {{")) {
            let known = mapping.split(|c: char| !c.is_alphanumeric()).any(|word| word == variant);
            assert!(known, "{name}::{variant} has no code in ffi/src/error.rs");
        }
    }
    let setup = variants(include_str!("../../../core/src/cm.rs"), "pub enum SetupError");
    for variant in setup {
        assert!(here.contains(&format!("{variant} => NCM_")), "SetupError::{variant} has no code");
    }
}

fn same<E: Into<ncm_error_code> + Copy>(error: E, errno: i32) {
    let code: ncm_error_code = error.into();
    assert_eq!(ncm_error_errno(code as i32), errno, "{code:?}");
    assert_ne!(code, NCM_OTHER_ERROR);
}

#[test]
fn a_code_has_the_errno_of_the_cores_error() {
    let state = State::Idle;
    let binds = [
        BindError::NoSuchId,
        BindError::InvalidState { state },
        BindError::DeviceGone,
        BindError::AddrNotLocal,
        BindError::ScopeMissing,
        BindError::PortInUse,
        BindError::TupleInUse,
        BindError::PortsExhausted,
        BindError::Full,
        BindError::WrongKey,
    ];
    for error in binds {
        same(error, error.errno());
        same(ResolveError::Bind { error }, error.errno());
    }
    for error in [
        ResolveError::NoSuchId,
        ResolveError::InvalidState { state },
        ResolveError::DeviceGone,
        ResolveError::FamilyMismatch,
        ResolveError::NotADestination,
        ResolveError::OtherDestination,
        ResolveError::OtherSource,
        ResolveError::ScopeMismatch,
        ResolveError::ZeroTimeout,
        ResolveError::Full,
    ] {
        same(error, error.errno());
    }
    for error in [
        ConnectError::NoSuchId,
        ConnectError::InvalidState { state },
        ConnectError::DeviceGone,
        ConnectError::WrongPortSpace,
        ConnectError::PrivateDataTooLong { limit: 56 },
        ConnectError::NumberTooLarge,
        ConnectError::QpnInUse,
        ConnectError::AlreadyGone,
        ConnectError::AlreadyEstablished,
    ] {
        same(error, error.errno());
    }
    same(CreateError::Full, CreateError::Full.errno());
    for error in [
        ListenError::NoSuchId,
        ListenError::InvalidState { state },
        ListenError::DeviceGone,
        ListenError::ListenConflict,
    ] {
        same(error, error.errno());
    }
    for error in [
        OpError::NoSuchId,
        OpError::InvalidState { state },
        OpError::DeviceGone,
        OpError::NumberTooLarge,
    ] {
        same(error, error.errno());
    }
}

/// Report A2: one cause, one errno, whichever address family it was.
#[test]
fn a2_a_port_in_use_is_eaddrinuse_and_a_foreign_address_is_not() {
    for code in [NCM_PORT_IN_USE, NCM_TUPLE_IN_USE, NCM_LISTEN_CONFLICT] {
        assert_eq!(ncm_error_errno(code as i32), EADDRINUSE);
    }
    let others: Vec<_> = TABLE.iter().filter(|entry| entry.2 == EADDRNOTAVAIL).collect();
    assert!(matches!(others[..], [Entry(NCM_ADDR_NOT_LOCAL, ..)]));
}
