"""The guest's image: an initramfs with the few programs, libraries and modules that a scenario uses.

Everything comes from the unpacked packages (debian.py); guest/init is what the kernel starts.
"""

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
LINKED = ("usr/bin/ip", "usr/bin/rdma", "usr/bin/rping", "usr/bin/cmtime", "usr/bin/udaddy",
          f"{LIBRARIES}/libibverbs/librxe-*.so", f"{LIBRARIES}/libgcc_s.so.1")

# In this order. rdma_rxe asks for crc32 by name, so that no dependency brings it.
MODULES = ("virtio_pci", "virtio_console", "virtio_net", "crc32_generic", "rdma_rxe", "rdma_ucm")


def kernel(root):
    """The unpacked kernel of `root`, as QEMU loads it."""
    return root / "boot" / f"vmlinuz-{debian.kernel_version(root)}"


def build(root, image):
    """Writes the initramfs for the packages unpacked in `root` to the file `image`."""
    with tempfile.TemporaryDirectory(prefix="nanocm-lab-") as folder:
        tree = pathlib.Path(folder)
        debian.merge_usr(tree)
        for name in ("proc", "sys", "dev", "tmp"):
            (tree / name).mkdir()
        add_programs(root, tree)
        add_modules(root, tree)
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
    missing = re.findall(r"(\S+) => not found", listed)
    if missing:
        raise Trouble(f"/{path} of the guest needs {' '.join(missing)}: a package is missing in debian.py.")
    return [name for name in re.findall(r"(\S+) => ", listed) if "/" not in name]


def add_modules(root, tree):
    """Copies the modules with all they depend on, and the order to load them in."""
    order = []
    for module in MODULES:
        shown = output(["modprobe", "--set-version", debian.kernel_version(root), "--dirname", str(root),
                        "--show-depends", module])
        order += [line.split()[1] for line in shown.splitlines() if line.startswith("insmod ")]
    order = list(dict.fromkeys(order))
    (tree / "modules").mkdir()
    for path in order:
        shutil.copy(path, tree / "modules")
    names = [pathlib.Path(path).name for path in order]
    (tree / "modules" / "order").write_text("".join(f"{name}\n" for name in names))


def copy(root, tree, path):
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(root / path, tree / path)
