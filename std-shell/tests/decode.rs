//! `nanocm decode` as scripts and people see it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use snapbox::cmd::{Command, OutputAssert, cargo_bin};
use snapbox::data::DataFormat;
use snapbox::{Data, str};

fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(name)
}

fn decode(args: &[&str], file: impl AsRef<Path>) -> OutputAssert {
    nanocm().arg("decode").args(args).arg(file.as_ref()).assert()
}

fn nanocm() -> Command {
    Command::new(cargo_bin!("nanocm"))
}

fn stdout(output: &OutputAssert) -> String {
    String::from_utf8(output.get_output().stdout.clone()).unwrap()
}

fn objects(output: &OutputAssert) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Those with CM messages, and those without.
const CAPTURES: [&str; 12] = [
    "dreq-on-kill9",
    "mra-req",
    "rej28-ucmatose",
    "rej4-timeout-ari",
    "rej8-no-listener-v4",
    "req-retries-dead-peer",
    "rping-v4",
    "rping-v6",
    "sidr-retransmit",
    "sidr1-no-listener",
    "ucmatose-tos0x68",
    "ucmatose-v4",
];
const SILENT: [&str; 5] =
    ["mckey-v4", "mpa-v1-siw", "mpa-v2-p2p-crc-siw", "mpa-v2-siw", "sa-opensm-synthetic"];

#[test]
fn every_capture_gives_the_objects_of_an_independent_decoder() {
    for name in CAPTURES.iter().chain(&["udaddy-v4"]) {
        let output = decode(&["--json"], capture(&format!("{name}.pcap"))).success().stderr_eq("");
        let golden = std::fs::read_to_string(capture(&format!("golden/{name}.jsonl"))).unwrap();
        let golden: Vec<Value> = golden
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["decode"].take())
            .collect();
        assert!(!golden.is_empty());
        assert_eq!(objects(&output), golden, "{name}");
    }
}

#[test]
fn fields_stand_in_the_order_of_the_contract() {
    const ORDER: &str = "frame time src dst message attr tid local_comm_id remote_comm_id request_id \
        service_id ca_guid qpn qkey psn pkey path_mtu transport retry_count rnr_retry_count resp_res \
        init_depth remote_cm_response_timeout local_cm_response_timeout max_cm_retries \
        service_timeout message_mraed reason rejected_message ari status icrc private_data ip_cm";
    for name in CAPTURES {
        for object in objects(&decode(&["--json"], capture(&format!("{name}.pcap")))) {
            let keys = object.as_object().unwrap().keys();
            let places: Vec<_> =
                keys.map(|key| ORDER.split_whitespace().position(|name| name == key)).collect();
            assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{object}");
        }
    }
}

#[test]
fn a_capture_without_cm_messages_is_no_error() {
    for name in SILENT {
        for form in [&[][..], &["--json"], &["--ladder"]] {
            decode(form, capture(&format!("{name}.pcap")))
                .success()
                .stdout_eq("")
                .stderr_eq("no CM message in [..] packets ([..])\n");
        }
    }
}

#[test]
fn every_ladder_is_as_drawn_before() {
    for name in CAPTURES {
        let picture = capture(&format!("ladders/{name}.txt"));
        decode(&["--ladder"], capture(&format!("{name}.pcap")))
            .success()
            .stdout_eq(Data::read_from(&picture, Some(DataFormat::Text)).raw());
    }
}

#[test]
fn without_an_option_there_is_a_line_for_each_message() {
    decode(&[], capture("mra-req.pcap"))
        .success()
        .stdout_eq(str![[r#"
   #20    0.000000  10.99.0.2 → 10.99.0.1    REQ      RDMA tcp port 7174, QPN 0x11, PSN 0xe604d1
   #21    6.350497  10.99.0.2 → 10.99.0.1    REQ      RDMA tcp port 7174, QPN 0x11, PSN 0xe604d1
   #22    6.360309  10.99.0.1 → 10.99.0.2    MRA      REQ received, wait 68.7 s
   #27   21.681263  10.99.0.1 → 10.99.0.2    REP      QPN 0x11, PSN 0xd100ab
   #28   21.693827  10.99.0.2 → 10.99.0.1    RTU
   #53   21.921786  10.99.0.2 → 10.99.0.1    DREQ     QPN 0x11
   #54   21.932393  10.99.0.1 → 10.99.0.2    DREP

"#]])
        .stderr_eq(str![[r#"
7 CM messages in 54 packets (24 RDMA data, 23 not RoCEv2)

"#]]);
}

#[test]
fn ladders_have_colours_only_where_they_are_wanted() {
    let ladder = || nanocm().args(["decode", "--ladder"]).arg(capture("rping-v4.pcap"));
    let plain = stdout(&ladder().env_remove("CLICOLOR_FORCE").assert().success());
    let forced = stdout(&ladder().env("CLICOLOR_FORCE", "1").assert().success());
    assert!(!plain.contains('\x1b') && forced.contains('\x1b'));
}

#[test]
fn standard_input_is_a_file_too() {
    let file = std::fs::read(capture("rping-v4.pcap")).unwrap();
    let output = nanocm().args(["decode", "--json", "-"]).stdin(file).assert().success();
    assert_eq!(objects(&output).len(), 5);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = std::process::Command::new(cargo_bin!("nanocm"))
        .args(["decode", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let file = std::fs::read(capture("rping-v4.pcap")).unwrap();
    child.stdin.take().unwrap().write_all(&file).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

/// One sentence on stderr, with `--json` an error object with the same words, exit 1.
fn fails(file: impl AsRef<Path>, sentence: &str, name: &str, errno: i32, cause: &str) {
    for form in ["--ladder", "--json"] {
        decode(&[form], &file).code(1).stderr_eq(Data::text(format!("nanocm: {sentence}\n")).raw());
    }
    let error = objects(&decode(&["--json"], &file)).pop().unwrap();
    let expected = serde_json::json!({
        "event": "ERROR", "error": name, "errno": errno, "cause": cause, "message": sentence,
    });
    assert_eq!(error, expected);
}

#[test]
fn what_is_no_capture_is_told_in_a_sentence() {
    let empty = "/dev/null is empty, so it is no capture file";
    fails("/dev/null", empty, "EINVAL", 22, "not-a-capture");
    let text = capture("README.md");
    let sentence = format!("{} is no capture file: it is neither pcap nor pcapng", text.display());
    fails(text, &sentence, "EINVAL", 22, "not-a-capture");
    fails("/", "/ can't be read: Is a directory", "EISDIR", 21, "unreadable");
    let missing = "/no/such.pcap can't be opened: No such file or directory";
    fails("/no/such.pcap", missing, "ENOENT", 2, "no-file");
}

/// The file that `change` makes of a capture.
fn changed(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut file = std::fs::read(capture("rping-v4.pcap")).unwrap();
    change(&mut file);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, file).unwrap();
    path
}

#[test]
fn a_capture_of_another_link_type_is_told_in_a_sentence() {
    let path = changed("infiniband.pcap", |file| file[20] = 247);
    let sentence = format!(
        "{} was captured on link type 247 (InfiniBand); only Ethernet, raw IP and Linux cooked \
         captures can be decoded",
        path.display()
    );
    fails(path, &sentence, "EINVAL", 22, "link-type");
}

#[test]
fn a_capture_that_is_cut_short_is_decoded_as_far_as_it_goes() {
    let path = changed("short.pcap", |file| file.truncate(2900));
    let sentence = format!("{} ends in the middle of packet 23: it was cut short", path.display());
    fails(&path, &sentence, "EINVAL", 22, "cut-short");
    assert_eq!(objects(&decode(&["--json"], &path)).len(), 4, "three messages and the error");
    assert!(stdout(&decode(&["--ladder"], &path)).contains("RTU"));
}

#[test]
fn what_is_wrong_with_a_message_is_told() {
    // The last octet of the REQ's private data, in packet 17.
    let path = changed("bad-icrc.pcap", |file| {
        let length_of_req = 322_u32.to_le_bytes();
        let at = file.windows(4).position(|four| four == length_of_req).unwrap();
        file[at + 8 + 322 - 5] ^= 1;
    });
    let output = decode(&["--json"], &path).success().stderr_eq("1 message has a wrong ICRC\n");
    assert_eq!(objects(&output)[0]["icrc"], "bad");
    assert!(stdout(&decode(&[], &path)).contains("(wrong ICRC)"));
    assert!(stdout(&decode(&["--ladder"], &path)).contains("(wrong ICRC)"));
}

#[test]
fn arguments_that_can_not_be_understood_end_with_2() {
    for args in [&["decode"][..], &["decode", "--josn", "x"], &["dekode", "x"], &[]] {
        nanocm().args(args).assert().code(2).stdout_eq("");
    }
    let both = nanocm().args(["decode", "--json", "--ladder", "x"]).assert().code(2);
    let error = objects(&both).pop().unwrap();
    assert_eq!((&error["event"], &error["cause"]), (&"ERROR".into(), &"usage".into()));
    assert_eq!(error["message"], "the argument '--json' cannot be used with '--ladder'");
}

#[test]
fn help_fits_a_hundred_columns() {
    for args in [&["--help"][..], &["decode", "--help"]] {
        let help = stdout(&nanocm().args(args).assert().success());
        assert!(help.contains("Examples:"));
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}
