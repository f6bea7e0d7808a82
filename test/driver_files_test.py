#!/usr/bin/env python3
"""The driver's files, by every name that a program may have for them.

usage: driver_files_test.py PHANTORA_RUN OTHER_CALLS
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN, OTHER_CALLS = sys.argv[1:3]
ENOSYS = 38
GPUS = 4


def run(*command, options=(), **kwargs):
    kwargs.setdefault("timeout", 120)
    return subprocess.run([PHANTORA_RUN, "--no-status", *options, "--", *command], text=True, check=True,
                          stdout=subprocess.PIPE, **kwargs).stdout


def python(program, *options):
    """Runs a Python program that prints a JSON value, and returns that."""
    return json.loads(run(sys.executable, "-c", program, options=["--gpus", str(GPUS), *options]))


NAMES = """
import json, os
def kind(how):
    try:
        file = how()
    except OSError as error:
        return error.errno
    name = os.readlink("/proc/self/fd/%d" % file)
    os.close(file)
    return name.split(":")[0]
node, flags = "/dev/nvidiactl", os.O_RDWR
root = os.open("/", os.O_RDONLY)
dev = os.open("/dev", os.O_RDONLY)
os.chdir("/dev")
print(json.dumps({
    "absolute": kind(lambda: os.open(node, flags)),
    "dots": kind(lambda: os.open("/tmp/.././/dev/../dev/nvidiactl", flags)),
    "root of /proc": kind(lambda: os.open("/proc/self/root" + node, flags)),
    "root of a number": kind(lambda: os.open("/proc/%d/root%s" % (os.getpid(), node), flags)),
    "root of a task": kind(lambda: os.open("/proc/self/task/%d/root%s" % (os.getpid(), node), flags)),
    "cwd of /proc": kind(lambda: os.open("/proc/self/cwd/nvidiactl", flags)),
    "fd of /proc": kind(lambda: os.open("/proc/self/fd/%d/nvidiactl" % dev, flags)),
    "relative": kind(lambda: os.open("nvidiactl", flags)),
    "from a descriptor": kind(lambda: os.open("dev/nvidiactl", flags, dir_fd=root)),
    "O_CREAT": kind(lambda: os.open(node, flags | os.O_CREAT)),
    "O_EXCL": kind(lambda: os.open(node, flags | os.O_CREAT | os.O_EXCL)),
    "hidden": kind(lambda: os.open("/dev/nvidia9", flags)),
    "hidden, O_CREAT": kind(lambda: os.open("/dev/nvidia9", flags | os.O_CREAT, 0o600)),
}))
"""

CHANGES = """
import json, os, stat
def error(how):
    try:
        how()
    except OSError as failed:
        return failed.errno
node, free, own = "/dev/nvidia0", "/tmp/phantora-free-%d" % os.getpid(), "/tmp/phantora-own-%d" % os.getpid()
open(own, "w").close()
print(json.dumps({
    "mknod": error(lambda: os.mknod(node, stat.S_IFREG)),
    "mknod of a hidden one": error(lambda: os.mknod("/dev/nvidia12", stat.S_IFREG)),
    "mkdir": error(lambda: os.mkdir("/proc/driver/nvidia")),
    "symlink": error(lambda: os.symlink(free, node)),
    "link": error(lambda: os.link(own, node)),
    "link from": error(lambda: os.link(node, free)),
    "unlink": error(lambda: os.unlink(node)),
    "rename": error(lambda: os.rename(node, free)),
    "rename to": error(lambda: os.rename(own, node)),
}))
os.unlink(own)
"""

STATUS = """
import json, os, stat
def status(path):
    s = os.stat(path)
    return [stat.S_IFMT(s.st_mode), s.st_size, s.st_ino]
version = "/proc/driver/nvidia/version"
devices = "/sys/bus/pci/devices"
gpu = next(os.path.join(devices, name) for name in sorted(os.listdir(devices))
           if open(os.path.join(devices, name, "vendor")).read().strip() == "0x10de")
os.chdir("/proc")
listing = os.open(gpu, os.O_RDONLY)
print(json.dumps({
    "inodes": [status(p)[2] for p in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1", "/proc/devices", version)],
    "version": [os.path.getsize(version), len(open(version).read()), os.fstat(os.open(version, 0)).st_size],
    "link": [os.path.islink(gpu), os.path.isdir(gpu), sorted(os.listdir(gpu)) == sorted(os.listdir(os.path.realpath(gpu)))],
    "nofollow": stat.S_ISLNK(os.lstat(gpu).st_mode) and not stat.S_ISLNK(os.stat(gpu).st_mode),
    "by listing": open(os.open("vendor", os.O_RDONLY, dir_fd=listing)).read(),
    "relative": open("devices").read() == open("/proc/devices").read() and "nvidia" in open("devices").read(),
    "through links": open("/sys/bus/pci/devices/../devices/" + os.path.basename(gpu) + "/vendor").read(),
    "statfs": os.statvfs(version).f_bsize,
}))
"""

# A second thread changes the name between "/proc/devicez" and "/proc/devices" while it is opened.
RACE = """
import ctypes, json, os, threading
libc = ctypes.CDLL(None, use_errno=True)
name = ctypes.create_string_buffer(64)
name.value = b"/proc/devicez"
end = threading.Event()
def change():
    while not end.is_set():
        name[12] = b"z"
        name[12] = b"s"
changer = threading.Thread(target=change)
changer.start()
found = {}
for _ in range(1000):
    file = libc.open(name, 0)
    if file < 0:
        kind = "error %d" % ctypes.get_errno()
    else:
        kind = "emulated" if b"nvidia" in os.read(file, 65536) else "the host's"
        os.close(file)
    found[kind] = found.get(kind, 0) + 1
end.set()
changer.join()
print(json.dumps(found))
"""


class NamesTest(unittest.TestCase):
    def test_every_name_of_a_node_means_the_emulated_one(self):
        for options in ([], ["--host-time", "real"]):
            kinds = python(NAMES, *options)
            self.assertEqual(kinds.pop("O_EXCL"), 17)
            self.assertEqual(kinds.pop("hidden"), 2)
            self.assertEqual(kinds.pop("hidden, O_CREAT"), 13)
            self.assertEqual(set(kinds.values()), {"pipe"}, kinds)
        self.assertFalse(os.path.exists("/dev/nvidia9"))

    def test_a_name_that_changes_while_it_is_opened_never_means_the_hosts(self):
        found = python(RACE)
        self.assertNotIn("the host's", found)
        self.assertIn("emulated", found)

    def test_nobody_makes_moves_or_removes_them(self):
        errors = python(CHANGES)
        self.assertEqual(errors, {
            "mknod": 17, "mknod of a hidden one": 13, "mkdir": 17, "symlink": 17, "link": 17, "link from": 17,
            "unlink": 13, "rename": 13, "rename to": 13})
        self.assertFalse(os.path.exists("/dev/nvidia12"))


class StatusTest(unittest.TestCase):
    def test_is_the_same_by_every_way_and_in_every_run(self):
        first, second = python(STATUS), python(STATUS)
        self.assertEqual(first, second)
        self.assertEqual(len(set(first["inodes"])), len(first["inodes"]))
        self.assertLess(max(first["inodes"]), 1 << 20)  # no address of the supervisor's
        self.assertEqual(len(set(first["version"])), 1)
        self.assertEqual(first["link"], [True, True, True])
        self.assertTrue(first["nofollow"])
        self.assertTrue(first["relative"])
        self.assertEqual(first["by listing"], "0x10de\n")
        self.assertEqual(first["through links"], "0x10de\n")

    def test_a_library_is_replaced_for_readers_only(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "libnccl.so.2")
            run("sh", "-c", "echo installed > %s; test $(wc -c < %s) -gt 10000" % (path, path))
            with open(path, encoding="ascii") as file:
                self.assertEqual(file.read(), "installed\n")


class InterfacesTest(unittest.TestCase):
    def test_other_interfaces_of_the_kernel_are_refused(self):
        for options in ([], ["--host-time", "real"]):
            lines = run(OTHER_CALLS, options=options).splitlines()
            self.assertEqual(len(lines), 7, lines)
            for line in lines:
                self.assertEqual(line.split()[-1], str(-ENOSYS), line)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
