"""A machine that seems to have GPUs: /dev with files that stand for NVIDIA's nodes, in a name space of the test's own.

Each holds "real". As root of the machine that is a mount name space; for others, one of users as well, where they are
root of. Where both are forbidden, nothing can be shown.
"""

import os
import subprocess
import sys
import tempfile

KEPT = ("null", "zero", "full", "random", "urandom", "tty")
NODES = ("nvidiactl", "nvidia0", "nvidia1", "nvidia-uvm", "nvidia-caps/nvidia-cap1")
# Of a GPU that the emulated machine does not have.
HIDDEN = "nvidia7"
# And its PCI device, with the files through which root reaches its memory.
DEVICE, DEVICE_FILES = "0000:77:00.0", ("resource0", "resource1_wc", "config", "rom")
INSIDE = "--inside"


def make():
    """In the name space: makes /dev."""
    run = lambda *words: subprocess.run(words, check=True)
    real = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
    run("mount", "--rbind", "/dev", real)
    run("mount", "-t", "tmpfs", "-o", "mode=755", "none", "/dev")
    for name in KEPT:
        open("/dev/" + name, "w", encoding="ascii").close()
        run("mount", "--bind", os.path.join(real, name), "/dev/" + name)
    os.mkdir("/dev/shm")
    os.chmod("/dev/shm", 0o1777)
    os.symlink("/proc/self/fd", "/dev/fd")
    os.mkdir("/dev/nvidia-caps")
    for name in (*NODES, HIDDEN):
        with open("/dev/" + name, "w", encoding="ascii") as file:
            file.write("real")
        os.chmod("/dev/" + name, 0o666)
    make_sysfs(run)


def make_sysfs(run):
    """/sys as it is, but for what is on the PCI bus."""
    kept = [name for name in os.listdir("/sys") if name not in ("bus", "devices")]
    real = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
    run("mount", "--rbind", "/sys", real)
    run("mount", "-t", "tmpfs", "-o", "mode=755", "none", "/sys")
    os.makedirs("/sys/bus/pci/devices")
    for name in (*kept, "devices/system"):
        if os.path.isdir(os.path.join(real, name)):
            os.makedirs("/sys/" + name)
            run("mount", "--rbind", os.path.join(real, name), "/sys/" + name)
    device = "/sys/devices/" + DEVICE
    os.mkdir(device)
    for name, text in (("vendor", "0x10de"), *((name, "real") for name in DEVICE_FILES)):
        with open(os.path.join(device, name), "w", encoding="ascii") as file:
            file.write(text)
    os.symlink("../../../devices/" + DEVICE, "/sys/bus/pci/devices/" + DEVICE)


def state():
    """What can be seen of the nodes: their content, owner, permissions and times, by name."""
    seen = {}
    for path in (*("/dev/" + name for name in (*NODES, HIDDEN)),
                 *(f"/sys/devices/{DEVICE}/{name}" for name in DEVICE_FILES)):
        status = os.stat(path)
        with open(path, encoding="ascii") as file:
            seen[path] = (file.read(), status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns,
                          status.st_nlink, status.st_ino, tuple(os.listxattr(path)))
    return seen


def run_inside(as_root_of_the_machine=False):
    """Calls this program anew in such a name space; its exit status. With `as_root_of_the_machine`, root there is
    root, if whoever runs the test is."""
    words = ["unshare", "-m" if as_root_of_the_machine and os.getuid() == 0 else "-rm"]
    probe = [*words, "mount", "-t", "tmpfs", "none", "/mnt"]
    if subprocess.run(probe, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print("SKIPPED: user and mount namespaces are forbidden here")
        return 0
    return subprocess.call([*words, sys.executable, *sys.argv, INSIDE])
