"""This machine's side: the programs the lab needs, and the Debian packages that bring them.

The guest's own programs are not among them: those come unpacked, see debian.py.
"""

import os
import shutil

from command import Trouble, output

# program -> Debian package
PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "depmod": "kmod",
    "modprobe": "kmod",
    "cpio": "cpio",
    "ip": "iproute2",
    "tcpdump": "tcpdump",
    "tshark": "tshark",
    "setpriv": "util-linux",
}

APT_LIMIT = 900  # seconds, for a slow mirror

os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"  # where some of them are, and not everybody looks


def install_missing():
    """Installs the packages of those programs that this machine lacks, and nothing else."""
    packages = sorted({PROGRAMS[program] for program in missing()})
    if packages:
        install(packages)
    if missing():
        raise Trouble(f"{', '.join(missing())}: still not found after installing {' '.join(packages)}.")


def missing():
    return [program for program in PROGRAMS if shutil.which(program) is None]


def install(packages):
    wanted = " ".join(packages)
    if shutil.which("apt-get") is None:
        raise Trouble(f"The lab needs {wanted}, and there is no apt-get here to install it: please install it by hand.")
    if os.geteuid() != 0:
        raise Trouble(f"The lab needs {wanted}: please run `apt-get install {wanted}` as root.")
    print(f"lab: installing {wanted}", flush=True)
    output(["apt-get", "-q", "update"], APT_LIMIT)
    output(["apt-get", "-q", "install", "--yes", "--no-install-recommends", *packages], APT_LIMIT,
           DEBIAN_FRONTEND="noninteractive")
