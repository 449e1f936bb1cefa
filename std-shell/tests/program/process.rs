//! A run of the program.

use crate::common::eventually;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Long enough on a slow machine.
const SOON: Duration = Duration::from_secs(30);

/// The program, running. It is killed when this is dropped.
pub(crate) struct Program {
    arguments: String,
    child: Child,
    lines: Receiver<String>,
    read: Vec<String>,
    stderr: Option<JoinHandle<String>>,
}

/// How it ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    /// Its output.
    pub(crate) lines: Vec<String>,
    pub(crate) stderr: String,
    arguments: String,
}

/// Starts `nanocm` with these arguments.
pub(crate) fn start(arguments: &str) -> Program {
    start_as(&mut Command::new(env!("CARGO_BIN_EXE_nanocm")), arguments)
}

/// Starts it by way of another command, or with other privileges.
pub(crate) fn start_as(command: &mut Command, arguments: &str) -> Program {
    command.args(arguments.split_whitespace());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program");
    let (tell, lines) = channel();
    let stdout = BufReader::new(child.stdout.take().expect("its output"));
    thread::spawn(move || {
        stdout.lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
    });
    let mut stderr = child.stderr.take().expect("its errors");
    let stderr = thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    let arguments = arguments.to_owned();
    Program { arguments, child, lines, read: Vec::new(), stderr: Some(stderr) }
}

/// Runs `nanocm` with these arguments to its end.
pub(crate) fn run(arguments: &str) -> Ended {
    start(arguments).end()
}

/// Starts a listener with `--json`, and waits until it is ready; its address.
pub(crate) fn listen(arguments: &str) -> (Program, SocketAddr) {
    let mut listener = start(&format!("listen --json {arguments}"));
    let ready = listener.event("LISTENING");
    let local = ready["local"].as_str().expect("an address").parse().expect("an address");
    (listener, local)
}

impl Program {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of output, which must come.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        match self.lines.recv_timeout(SOON) {
            Ok(line) => {
                self.read.push(line.clone());
                line
            }
            Err(why) => {
                let _ = self.child.kill();
                let stderr = self.stderr.take().map(|stderr| stderr.join().unwrap());
                let (arguments, read) = (&self.arguments, &self.read);
                panic!("{arguments}: no line ({why}) after {read:#?}, {stderr:?}");
            }
        }
    }

    /// The next event, which must be this one.
    #[track_caller]
    pub(crate) fn event(&mut self, name: &str) -> Value {
        let line = self.line();
        let event = parse(&line);
        assert_eq!(event["event"], name, "{}: {line}", self.arguments);
        event
    }

    /// Nothing is said for so long.
    #[track_caller]
    pub(crate) fn silent_for(&self, time: Duration) {
        assert_eq!(self.lines.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    }

    /// Sends it a signal: INT, TERM, KILL.
    pub(crate) fn signal(&self, name: &str) {
        sh(&format!("kill -{name} {}", self.pid()));
    }

    /// Reads nothing more of its output.
    pub(crate) fn close_output(&mut self) {
        self.lines = channel().1;
    }

    /// Waits for its end, and reads the rest of its output.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ended {
        while let Ok(line) = self.lines.recv_timeout(SOON) {
            self.read.push(line);
        }
        let status = self.wait();
        let stderr = self.stderr.take().expect("not read yet").join().expect("its errors");
        let (lines, arguments) = (std::mem::take(&mut self.read), self.arguments.clone());
        Ended { code: status.code(), lines, stderr, arguments }
    }

    #[track_caller]
    fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + SOON;
        loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                return status;
            }
            assert!(Instant::now() < end, "{} does not end: {:#?}", self.arguments, self.read);
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// It ended so.
    #[track_caller]
    pub(crate) fn with(self, code: i32) -> Ended {
        let Ended { arguments, lines, stderr, .. } = &self;
        assert_eq!(self.code, Some(code), "{arguments}: {lines:#?} {stderr}");
        self
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        self.lines.iter().map(|line| parse(line)).collect()
    }

    /// The names of its events.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |event: Value| event["event"].as_str().unwrap_or("?").to_owned();
        self.events().into_iter().map(name).collect()
    }

    /// It failed, with one error object at the end and a sentence on stderr that says the same.
    #[track_caller]
    pub(crate) fn failed(self, error: &str, cause: &str) -> Value {
        let ended = self.with(1);
        let object = ended.events().pop().expect("an error object");
        assert_eq!(object["event"], "ERROR", "{object}");
        assert_eq!(
            (object["error"].as_str(), object["cause"].as_str()),
            (Some(error), Some(cause)),
            "{object}"
        );
        let message = object["message"].as_str().expect("a message");
        let advice = object["advice"].as_str().map(|advice| format!(": {advice}"));
        let sentence = format!("nanocm: {message}{}\n", advice.unwrap_or_default());
        assert_eq!(ended.stderr, sentence);
        object
    }
}

/// A line of JSON, compact.
#[track_caller]
pub(crate) fn parse(line: &str) -> Value {
    let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    assert_eq!(value.to_string(), line, "not compact");
    value
}

/// Runs a shell command, which must succeed; its output.
#[track_caller]
pub(crate) fn sh(command: &str) -> String {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh").arg("-ec").arg(command).env("PATH", path).output().expect("sh");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Gives the loopback interface an IPv6 address. Packets find it a moment later than sockets do.
pub(crate) fn add_loopback(address: &str) {
    sh(&format!("ip addr add {address}/128 dev lo nodad"));
    let local = format!("local {address} ");
    eventually("it has a route", || sh("ip -6 route show table local").contains(&local));
}

/// Two network interfaces that are each other's wire, `left` and `right`. What is sent to 10.9.0.2, and to
/// no other, vanishes there.
pub(crate) fn veth() {
    sh("ip link add left type veth peer name right
        ip addr add 10.9.0.1/24 dev left
        ip addr add fe80::a/64 dev left nodad
        ip addr add fe80::b/64 dev right nodad
        ip link set left up
        ip link set right up
        ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev left");
    eventually("they have routes", || {
        let routes = sh("ip -6 route show table local");
        routes.contains("local fe80::a ") && routes.contains("local fe80::b ")
    });
}

/// A second namespace, at the other end of the wire.
pub(crate) struct Neighbour(Child);

impl Neighbour {
    /// `right`, with fe80::b and 10.9.0.3, moves over there.
    pub(crate) fn new() -> Neighbour {
        let mut shell = Command::new("unshare");
        shell.args(["-n", "sh", "-c", "echo ready; exec sleep 1000"]).stdout(Stdio::piped());
        let mut child = shell.spawn().expect("unshare");
        let mut ready = [0; 5];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let pid = child.id();
        sh(&format!(
            "ip link set right netns {pid}
             nsenter -t {pid} -n ip link set lo up
             nsenter -t {pid} -n ip addr add 10.9.0.3/24 dev right
             nsenter -t {pid} -n ip addr add fe80::b/64 dev right nodad
             nsenter -t {pid} -n ip link set right up"
        ));
        Neighbour(child)
    }

    /// What 10.9.0.1 and 10.9.0.3 send to each other vanishes from now on.
    pub(crate) fn cut(&self) {
        self.direct("02:00:00:00:00:09", "02:00:00:00:00:09");
    }

    /// And now it arrives again.
    pub(crate) fn mend(&self) {
        let address = |namespace: &str, name: &str| {
            sh(&format!("{namespace} ip -br link show {name}"))
                .split_whitespace()
                .nth(2)
                .unwrap()
                .to_owned()
        };
        let there = format!("nsenter -t {} -n", self.0.id());
        let (left, right) = (address("", "left"), address(&there, "right"));
        self.direct(&right, &left);
    }

    /// Which link-layer addresses the two take each other to have.
    fn direct(&self, right: &str, left: &str) {
        sh(&format!(
            "ip neigh replace 10.9.0.3 lladdr {right} dev left nud permanent
             nsenter -t {} -n ip neigh replace 10.9.0.1 lladdr {left} dev right nud permanent",
            self.0.id()
        ));
    }

    pub(crate) fn start(&self, arguments: &str) -> Program {
        let mut command = Command::new("nsenter");
        let pid = self.0.id().to_string();
        command.args(["-t", &pid, "-n", env!("CARGO_BIN_EXE_nanocm")]);
        start_as(&mut command, arguments)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
