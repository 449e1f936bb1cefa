"""The guest's side: a kernel and its RDMA programs, from Debian packages that are unpacked and never installed.

Each release has a folder in the cache ($NANOCM_LAB_CACHE, else ~/.cache/nanocm-lab):

    root/    the unpacked packages, one merged /usr
    ready    which packages root/ holds; written last
    apt/     only while fetching: an apt of its own, so that neither does the guest depend on this machine's
             release, lists or packages, nor do they change
"""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
from typing import NamedTuple, Tuple

from command import Trouble, output

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
APT_LIMIT = 900  # seconds, for a slow mirror


class Release(NamedTuple):
    suite: str
    kernel: str  # as people call it: "6.1"
    packages: Tuple[str, ...]
    modules: Tuple[str, ...]  # those that it needs beyond what every kernel gets


COMMON = ("busybox-static", "rdmacm-utils", "libibverbs1", "ibverbs-providers", "libnl-3-200", "libnl-route-3-200",
          "iproute2", "libmnl0", "libbpf1", "libbsd0", "libmd0", "libcap2", "libxtables12", "zlib1g", "libc6",
          "libgcc-s1")

NEWER = (*COMMON, "librdmacm1t64", "libelf1t64", "libzstd1", "libselinux1", "libpcre2-8-0")

# rdma_rxe asks for crc32 by name, so that no dependency brings it; kernels of 7.x have it built in.
CRC32 = ("crc32_generic",)

# In the order in which the lab boots them.
RELEASES = (
    Release("bookworm", "6.1", (*COMMON, "librdmacm1", "libelf1"), CRC32),
    Release("trixie", "6.12", NEWER, CRC32),
    Release("sid", "sid", NEWER, ()),
)


def releases(kernels):
    """Those of these kernels; all for none."""
    known = {release.kernel: release for release in RELEASES}
    for kernel in kernels:
        if kernel not in known:
            raise Trouble(f"The lab has no kernel {kernel}; it has {', '.join(known)}.")
    return [known[kernel] for kernel in kernels] or list(RELEASES)


def unpacked(release):
    """The folder that holds the release's kernel and programs; fetched on the first call, from then on cached."""
    home = cache() / release.suite
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Trouble(f"{home} cannot be made ({error.strerror}): NANOCM_LAB_CACHE may name another cache.") from None
    with locked(home / "lock"):
        ready = home / "ready"
        wanted = "\n".join(release.packages)
        if not ready.exists() or ready.read_text() != wanted:
            ready.unlink(missing_ok=True)
            fetch(release, home)
            ready.write_text(wanted)
    return home / "root"


def cache():
    return pathlib.Path(os.environ.get("NANOCM_LAB_CACHE") or pathlib.Path.home() / ".cache" / "nanocm-lab")


@contextlib.contextmanager
def locked(path):
    """Two labs that start together fetch once: the second waits for the first."""
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fetch(release, home):
    print(f"lab: fetching the {release.suite} guest's packages into {home} (about 90 MB, once)", flush=True)
    apt = Apt(release.suite, home / "apt")
    apt.run("apt-get", "update")
    packages = [*kernel_packages(apt), *release.packages]
    apt.run("apt-get", "download", *packages, cwd=apt.debs)
    root = home / "root"
    shutil.rmtree(root, ignore_errors=True)
    merge_usr(root)
    for deb in sorted(apt.debs.glob("*.deb")):
        unpack(deb, root)
    output(["depmod", "--basedir", str(root), kernel_version(root)])
    shutil.rmtree(apt.home)


def merge_usr(root):
    """Packages still differ in whether they ship /bin or /usr/bin: here both are one."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")


def unpack(deb, root):
    """As `dpkg-deb --extract`, which would put folders in the place of our links."""
    script = 'dpkg-deb --fsys-tarfile "$1" | tar --extract --keep-directory-symlink --directory "$2"'
    output(["sh", "-c", script, "unpack", str(deb), str(root)])


def kernel_packages(apt):
    """The packages behind the metapackage: linux-image-6.1.0-NN-amd64, and those that newer kernels are split into."""
    depends = apt.run("apt-cache", "depends", "linux-image-amd64")
    found = re.search(r"Depends: (linux-image-\S+)", depends)
    if not found:
        raise Trouble(f"apt-cache names no kernel behind linux-image-amd64 but says:\n{depends}")
    image = found.group(1)
    return [image, *re.findall(r"Depends: (linux-(?:base|binary|modules)-\d\S+)", apt.run("apt-cache", "depends", image))]


def kernel_version(root):
    """The one kernel's version as its module folder is called: 6.1.0-NN-amd64."""
    versions = [folder.name for folder in (root / "lib" / "modules").iterdir()]
    if len(versions) != 1:
        raise Trouble(f"{root} should hold one kernel, not {versions}: please delete {root.parent}.")
    return versions[0]


class Apt:
    """An apt with sources, lists and package records of its own; only the mirror is this machine's."""

    def __init__(self, suite, home):
        self.home, self.debs, self.config = home, home / "debs", home / "apt.conf"
        shutil.rmtree(home, ignore_errors=True)
        for folder in (self.debs, home / "lists" / "partial", home / "cache"):
            folder.mkdir(parents=True)
        (home / "status").touch()
        (home / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror()} {suite} main\n")
        self.config.write_text(
            f'Dir::State "{home}"; Dir::State::lists "{home}/lists"; Dir::State::status "{home}/status";\n'
            f'Dir::Cache "{home}/cache"; Dir::Etc::sourcelist "{home}/sources.list"; Dir::Etc::sourceparts "-";\n'
            'APT::Architecture "amd64"; Acquire::Languages "none"; Acquire::Retries "3";\n'
            'APT::Sandbox::User "root"; APT::Update::Error-Mode "any";\n')

    def run(self, *command, cwd=None):
        return output(command, APT_LIMIT, cwd=cwd, APT_CONFIG=str(self.config))


def mirror():
    """Where this machine gets Debian from."""
    sites = output(["apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI)"]).split()
    for site in sites:
        if site.rstrip("/").endswith("/debian"):
            return site
    raise Trouble(f"apt's sources name no Debian mirror (they name: {' '.join(set(sites)) or 'none'}).")
