//! Arguments that cannot be understood, or cannot be had.

use crate::isolated;
use crate::process::*;

/// None of them gets as far as a socket.
#[test]
fn each_mistake_ends_with_2_and_a_sentence() {
    for (arguments, part) in [
        ("connect 10.0.0.1", "the port is missing"),
        ("connect 10.0.0.1:0", "port 0 can't be connected to"),
        ("connect 10.0.0.1:65536", "it is 0 to 65535"),
        ("connect host:1", "names are not looked up"),
        ("connect [fe80::1%nowhere0]:1", "no network interface"),
        ("connect [fd00::1:1", "brackets"),
        ("connect 10.0.0.1:1 --from 10.0.0", "no IP address"),
        ("connect 10.0.0.1:1 --count 0", "--count"),
        ("connect 10.0.0.1:1 --count x", "--count"),
        ("connect 10.0.0.1:1 --parallel 0", "--parallel"),
        ("connect 10.0.0.1:1 --hold -1", "-1"),
        ("connect 10.0.0.1:1 --timeout 0", "--timeout"),
        ("connect 10.0.0.1:1 --retries 300", "--retries"),
        ("connect 10.0.0.1:1 --tos 256", "--tos"),
        ("connect 10.0.0.1:1 --qpn 1", "it is 2 to 16777215"),
        ("connect 10.0.0.1:1 --private-data 123", "3 digits"),
        ("connect 10.0.0.1:1 --private-data zz", "'z' is not a hexadecimal digit"),
        ("connect 10.0.0.1:1 --provider tcp", "expected udp, raw, umad:CA/PORT or kernel"),
        ("connect 10.0.0.1:1 --provider umad:mlx5_0", "expected udp"),
        ("connect 10.0.0.1:1 --nonsense", "--nonsense"),
        ("connect 10.0.0.1:1 10.0.0.2:1", "10.0.0.2:1"),
        ("listen 10.0.0.1", "the port is missing"),
        ("listen 10.0.0.1:1 --reject 34", "no reject reason"),
        ("listen 10.0.0.1:1 --reject Consumer", "no reject reason"),
        ("listen 10.0.0.1:1 --space sdp", "tcp, udp"),
        ("listen 10.0.0.1:1 --backlog many", "--backlog"),
        ("listen 10.0.0.1:1 --count -3", "-3"),
        ("listen 10.0.0.1:1 --accept-after soon", "--accept-after"),
        ("listen 10.0.0.1:1 --accept-deadline 0", "--accept-deadline"),
        ("resolve 10.0.0.1", "the port is missing"),
        ("resolve 10.0.0.1:0", "port 0 can't be connected to"),
        ("resolve 10.0.0.1:1 --timeout 0", "--timeout"),
        ("resolve 10.0.0.1:1 --count 2", "--count"),
        ("connect", "<ADDR:PORT>"),
        ("resolve", "<ADDR:PORT>"),
        ("listen", "<ADDR:PORT>"),
        ("decode", "<FILE>"),
        ("decode x --json --ladder", "--ladder"),
        ("states --json", "--json"),
        ("fly", "fly"),
    ] {
        let ended = run(arguments).with(2);
        assert!(ended.stderr.starts_with("error: "), "{arguments}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "{arguments}: {}", ended.stderr);
        if !arguments.contains("--json") {
            assert!(ended.lines.is_empty(), "{arguments}: {:?}", ended.lines);
        }
    }
}

#[test]
fn with_json_a_mistake_is_an_object_too() {
    let ended = run("connect 10.0.0.1:0 --json").with(2);
    let error = &ended.events()[0];
    assert_eq!((ended.lines.len(), error["event"].as_str()), (1, Some("ERROR")));
    assert_eq!((error["error"].as_str(), error["cause"].as_str()), (Some("EINVAL"), Some("usage")));
    assert!(error["message"].as_str().unwrap().contains("port 0 can't be connected to"));
}

#[test]
fn help_and_version_are_no_mistakes() {
    for arguments in ["--help", "help", "connect --help", "help listen", "--version"] {
        let ended = run(arguments).with(0);
        assert!(!ended.lines.is_empty() && ended.stderr.is_empty(), "{arguments}");
    }
    assert_eq!(run("--version").lines, [format!("nanocm {}", env!("CARGO_PKG_VERSION"))]);
    // Without an argument the help is for who does not know what to say.
    assert!(run("").with(2).stderr.contains("Usage: nanocm"));
}

/// Understood, but beyond this version.
#[test]
fn what_is_not_built_yet_is_refused_plainly() {
    for (arguments, cause) in [
        ("listen 127.0.0.1:1 --provider kernel", "provider"),
        ("listen 127.0.0.1:1 --provider umad:mlx5_0/1", "provider"),
        ("resolve 127.0.0.1:1 --provider kernel", "provider"),
        ("resolve gid:[fe80::1]:1", "provider"),
        ("listen gid:[fe80::1]:1", "provider"),
        ("connect 127.0.0.1:1 --provider kernel", "provider"),
        ("connect gid:[fe80::1]:1", "provider"),
        ("connect 127.0.0.1:1 --from gid:[fe80::1]", "provider"),
    ] {
        let error = run(&format!("{arguments} --json")).failed("EOPNOTSUPP", cause);
        assert_eq!(error["errno"], 95, "{arguments}");
    }
}

/// Before anything is opened or sent.
#[test]
fn private_data_that_does_not_fit_is_refused_with_the_limit() {
    for (arguments, message, limit) in [
        ("connect 127.0.0.1:1", "REQ", 56),
        ("listen 127.0.0.1:1", "REP", 196),
        ("listen 127.0.0.1:1 --reject 28", "REJ", 148),
        ("listen 127.0.0.1:1 --space udp", "SIDR_REP", 136),
        ("listen 127.0.0.1:1 --space udp --reject 28", "SIDR_REP", 136),
    ] {
        let data = "00".repeat(limit + 1);
        let error = run(&format!("{arguments} --private-data {data} --json"))
            .failed("EMSGSIZE", "too-long");
        let wanted =
            format!("{} octets of private data are too many: a {message} takes {limit}", limit + 1);
        assert_eq!(error["message"], wanted);
    }
}

#[test]
fn private_data_that_just_fits_arrives() {
    isolated!();
    let (data, answer) = ("5a".repeat(56), "a5".repeat(196));
    let (mut listener, local) = listen(&format!("127.0.0.2:7471 --private-data {answer}"));
    let client = run(&format!("connect {local} --private-data {data} --json")).with(0);
    assert_eq!(listener.event("CONNECT_REQUEST")["private_data"], data);
    assert_eq!(client.events()[0]["private_data"], answer);
}

#[test]
fn the_raw_provider_connects_or_says_what_it_lacks() {
    isolated!();
    let (_listener, local) = listen("127.0.0.2:7471 --provider raw");
    run(&format!("connect {local} --provider raw")).with(0);
    run(&format!("connect {local} --provider udp --from 127.0.0.3")).with(0);
}
