"""The guest's image: an initramfs with the few programs, libraries and modules that a scenario uses.

Everything comes from the unpacked packages (debian.py); guest/init is what the kernel starts.
"""

import lzma
import pathlib
import re
import shutil
import tempfile

import debian
from command import Trouble, output

LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = "usr/lib64/ld-linux-x86-64.so.2"

# Copied as they are.
PLAIN = ("usr/bin/busybox", LOADER, "etc/libibverbs.d/rxe.driver")

# Copied with the libraries they are linked to. The last two are opened by name at run time: libibverbs' driver for
# Soft-RoCE, and what glibc needs to end a thread.
LINKED = ("usr/bin/ip", "usr/sbin/tc", "usr/bin/rdma", "usr/bin/rping", "usr/bin/cmtime", "usr/bin/udaddy",
          "usr/bin/ucmatose", "usr/bin/rdma_server", "usr/bin/rdma_client", "usr/bin/rstream",
          f"{LIBRARIES}/libibverbs/librxe-*.so", f"{LIBRARIES}/libgcc_s.so.1")

# Loaded when the guest starts, in this order, after the release's own.
MODULES = ("virtio_pci", "virtio_console", "virtio_net", "rdma_rxe", "rdma_ucm")

# There for those scenarios that use them: faults, a VLAN, an NVMe target.
MORE_MODULES = ("sch_netem", "sch_ingress", "ifb", "cls_u32", "cls_matchall", "act_mirred", "act_gact", "act_police",
                "8021q", "nvmet_rdma")


def kernel(root):
    """The unpacked kernel of `root`, as QEMU loads it."""
    version = debian.kernel_version(root)
    places = (root / "boot" / f"vmlinuz-{version}", root / "usr" / "lib" / "modules" / version / "vmlinuz")
    return next(place for place in places if place.exists())


def build(release, root, image):
    """Writes the initramfs for the release's packages, unpacked in `root`, to the file `image`."""
    with tempfile.TemporaryDirectory(prefix="nanocm-lab-") as folder:
        tree = pathlib.Path(folder)
        debian.merge_usr(tree)
        for name in ("proc", "sys", "dev", "tmp"):
            (tree / name).mkdir()
        add_programs(root, tree)
        add_modules(root, tree, release.modules + MODULES)
        shutil.copy(pathlib.Path(__file__).parent / "guest" / "init", tree / "init")
        pack = 'cd "$1" && find . | cpio --quiet --create --format=newc >"$2"'
        output(["sh", "-c", pack, "pack", folder, str(image.resolve())])


def add_programs(root, tree):
    for pattern in PLAIN + LINKED:
        paths = [str(path.relative_to(root)) for path in root.glob(pattern)]
        if not paths:
            raise Trouble(f"None of the guest's packages holds /{pattern}.")
        for path in paths:
            copy(root, tree, path)
            for library in libraries(root, path) if pattern in LINKED else ():
                copy(root, tree, f"{LIBRARIES}/{library}")


def libraries(root, path):
    """The libraries that the guest's own loader would load for a program or library of the guest."""
    listed = output([str(root / LOADER), "--library-path", str(root / LIBRARIES), "--list", str(root / path)])
    names = [name for name in re.findall(r"(\S+) => ", listed) if "/" not in name]
    missing = [name for name in names if not (root / LIBRARIES / name).exists()]  # or found on this machine
    if missing:
        raise Trouble(f"/{path} of the guest needs {' '.join(missing)}: a package is missing in debian.py.")
    return names


def add_modules(root, tree, loaded):
    """Copies the modules with all they depend on, as modprobe in the guest looks for them."""
    version = debian.kernel_version(root)
    home = f"usr/lib/modules/{version}"
    for module in loaded + MORE_MODULES:
        shown = output(["modprobe", "--set-version", version, "--dirname", str(root), "--show-depends", module])
        for line in shown.splitlines():
            if line.startswith("insmod "):
                add_module(root, tree, pathlib.Path(line.split()[1]).resolve().relative_to(root.resolve()))
    for listed in (root / home).glob("modules.*"):
        if listed.name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
            copy(root, tree, f"{home}/{listed.name}")
    output(["depmod", "--basedir", str(tree), version])
    (tree / "etc" / "modules").write_text("".join(f"{name}\n" for name in loaded))


def add_module(root, tree, path):
    """One module, uncompressed: busybox does not undo what newer kernels' packages use."""
    target = tree / path.with_suffix("") if path.suffix == ".xz" else tree / path
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        data = (root / path).read_bytes()
        target.write_bytes(lzma.decompress(data) if path.suffix == ".xz" else data)


def copy(root, tree, path):
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(root / path, tree / path)
