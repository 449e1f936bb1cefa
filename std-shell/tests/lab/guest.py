"""A running guest: QEMU on the tap, and a shell inside that answers over a virtio port (guest/init)."""

import os
import re
import select
import shlex
import subprocess
import time

import image
import network
import processes
from command import Trouble

BOOT_LIMIT = 180  # seconds; a few on an idle machine
BOOTS = 3

NETDEV = "eth0"
RDMA_DEVICE = "rxe0"

# By its path, since busybox's shell prefers an `ip` of its own.
IP = "/usr/bin/ip"


class Gone(Trouble):
    """The guest has died or hangs: nothing can be asked of it any more."""


class Guest:
    """A context: entering boots and configures the guest, leaving kills it."""

    def __init__(self, release, root, folder):
        self.release, self.root, self.folder = release, root, folder
        self.console = folder / "console.log"
        self.lives = True

    def __enter__(self):
        initramfs = self.folder / "initramfs.cpio"
        image.build(self.release, self.root, initramfs)
        for boots_left in reversed(range(BOOTS)):
            try:
                self.boot(initramfs)
                return self
            except Gone as gone:
                # Emulation is not perfect: while a kernel patches itself another processor may run into the patch.
                if not boots_left:
                    raise
                print(f"lab: booting once more. {gone}", flush=True)

    def boot(self, initramfs):
        self.qemu = processes.start(self.command(initramfs), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=self.folder / "qemu.log")
        try:
            self.shell = Shell(self.qemu, self.state)
            self.shell.answer(BOOT_LIMIT)
            self.configure()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        processes.stop(self.qemu)

    def command(self, initramfs):
        return [
            "qemu-system-x86_64", "-accel", "tcg", "-smp", "2", "-m", "512", "-nodefaults", "-display", "none",
            "-no-reboot", "-kernel", str(image.kernel(self.root)), "-initrd", str(initramfs),
            "-append", "console=ttyS0 quiet panic=-1 mitigations=off",
            "-serial", f"file:{self.console}",
            "-chardev", "stdio,id=shell,signal=off",
            "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=shell",
            # Without vnet_hdr no checksum is left for the other end to fill in: the wire shows what was sent.
            "-netdev", f"tap,id=wire,ifname={network.TAP},script=no,downscript=no,vnet_hdr=off",
            "-device", "virtio-net-pci,netdev=wire,mac=52:54:00:00:00:02,romfile=",
        ]

    def configure(self):
        for _, address, prefix in network.ADDRESSES.values():
            self.must(IP, "address", "add", f"{address}/{prefix}", "dev", NETDEV, *network.nodad(address))
        self.must(IP, "link", "set", "lo", "up")
        self.must(IP, "link", "set", NETDEV, "up")
        self.must("rdma", "link", "add", RDMA_DEVICE, "type", "rxe", "netdev", NETDEV)
        for family in network.ADDRESSES:
            ping = f"ping -c 1 -W 1 {network.host_address(family)}"
            if not self.becomes_true(ping, 20):
                raise Trouble(f"The guest's {ping} is not answered: the wire is cut. See {self.console}.")

    def version(self):
        """As in `uname -r`."""
        return self.run("uname", "-r")[1].strip()

    def run(self, *command, limit=60):
        """Runs a program to its end; (exit status, output). One that is killed at the limit has status 137."""
        return self.shell.run(f"exec {shlex.join(command)}", limit)

    def must(self, *command):
        """Runs a program that cannot fail on a healthy guest."""
        status, text = self.run(*command)
        if status != 0:
            raise Trouble(f"In the guest, `{shlex.join(command)}` failed with status {status}: {text.strip()}")

    def becomes_true(self, test, seconds):
        """Whether a shell command comes to succeed within that time."""
        return processes.eventually(lambda: self.shell.run(test, 10)[0] == 0, seconds)

    def start(self, *command):
        """Starts a program in the background."""
        return Background(self.shell, command)

    def dropped(self):
        """How many packets Soft-RoCE has taken and found no room for."""
        folder = f"/sys/class/infiniband/{RDMA_DEVICE}/ports/1/hw_counters"
        _, text = self.shell.run(f"cat {folder}/rcvd_pkts {folder}/rdma_recvs", 10)
        taken, received = map(int, text.split())
        return taken - received

    def check(self):
        """After a scenario: its programs are gone, and so must be all that they had; the kernel has not complained."""
        if not self.becomes_true("left=$(rdma resource show cm_id) && [ -z \"$left\" ]", 10):
            raise Trouble(f"Linux still has CM identifiers: {self.shell.run('rdma resource show cm_id', 10)[1].strip()}")
        status, text = self.shell.run("dmesg -c | grep -E 'BUG|WARNING|Oops|Call Trace|blocked for more than'", 10)
        if status == 0:
            raise Trouble(f"Linux complains: {text.strip()}")

    def state(self):
        """What is known of a guest that does not answer."""
        console = self.console.read_text(errors="replace") if self.console.exists() else ""
        panic = re.search(r"Kernel panic.*", console)
        log = (self.folder / "qemu.log").read_text(errors="replace").strip()
        return f"{panic.group() if panic else log or 'QEMU says nothing'}; see {self.console}."


class Shell:
    """The conversation with guest/init: one request, one answer."""

    def __init__(self, qemu, state):
        self.input, self.output, self.state = qemu.stdin, qemu.stdout, state

    def run(self, script, limit):
        """The exit status and output of a one-line script, which the guest kills after `limit` seconds."""
        try:
            self.input.write(f"{limit} {script}\n".encode())
            self.input.flush()
        except BrokenPipeError:
            raise Gone(f"The guest is gone: {self.state()}") from None
        return self.answer(limit + 30)

    def answer(self, seconds):
        """Reads to the end of one answer: an empty line's end, \\001, the status."""
        end = time.monotonic() + seconds
        heard = b""
        while not (found := re.search(rb"\n\x01(\d+)\n\Z", heard)):
            ready, _, _ = select.select([self.output], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise Gone(f"The guest has not answered for {seconds} s: {self.state()}")
            piece = os.read(self.output.fileno(), 65536)
            if not piece:
                raise Gone(f"The guest is gone: {self.state()}")
            heard += piece
        return int(found.group(1)), heard[:found.start()].decode(errors="replace")


class Background:
    """A program that runs in the guest while the scenario goes on."""

    count = 0

    def __init__(self, shell, command):
        Background.count += 1
        self.shell, self.log, self.end = shell, f"/tmp/{Background.count}.log", f"/tmp/{Background.count}.end"
        self.shown = shlex.join(command)
        job = f"{self.shown} >{self.log} 2>&1; echo $? >{self.end}"
        _, pid = shell.run(f"setsid sh -c {shlex.quote(job)} >/dev/null 2>&1 & echo $!", 10)
        self.group = int(pid)

    def output(self):
        return self.shell.run(f"cat {self.log}", 10)[1]

    def status(self, limit):
        """The program's exit status, or None if it still runs after `limit` seconds."""
        script = f"until [ -s {self.end} ]; do sleep 0.1; done; cat {self.end}"
        status, text = self.shell.run(script, limit)
        return int(text) if status == 0 else None

    def signal(self, name):
        """Sends the program a signal, such as "STOP"."""
        self.shell.run(f"kill -{name} -{self.group}", 10)

    def kill(self):
        self.signal("KILL")
