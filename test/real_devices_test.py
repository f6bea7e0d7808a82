#!/usr/bin/env python3
"""Ranks and the machine's own GPUs: no way in.

usage: real_devices_test.py PHANTORA_RUN

The machine seems to have GPUs (real_nodes).
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import real_nodes

PHANTORA_RUN = os.path.abspath(sys.argv[1])
NODES = real_nodes.NODES

WAYS = """
import ctypes, json, os, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
found = {}
def way(name, open_it):
    try:
        file = open_it()
    except OSError as error:
        found[name] = error.errno
        return
    kind = os.readlink("/proc/self/fd/%d" % file)
    emulated = kind.startswith(("pipe:", "/memfd:phantora"))
    found[name] = "emulated" if emulated else "reached" if os.read(file, 16) == b"real" else "other"
    os.close(file)
def link(make, to):
    name = "way-%d-%d" % (os.getpid(), len(found))
    make("/dev/" + to, name)
    try:
        return os.open(name, os.O_RDONLY)
    finally:
        os.unlink(name)
def by_path_only():
    folder = os.open("/dev", os.O_PATH)
    node = libc.openat(folder, b"nvidia7", os.O_PATH)
    if node < 0:
        raise OSError(ctypes.get_errno(), "openat")
    return os.open("/proc/self/fd/%d" % node, os.O_RDONLY)
def race():
    name, end = ctypes.create_string_buffer(32), threading.Event()
    a, b = b"harmless0\\0", b"/dev/nvidia1\\0"
    name.raw = a + bytes(32 - len(a))
    def change():
        while not end.is_set():
            ctypes.memmove(name, a, len(a))
            ctypes.memmove(name, b, len(b))
    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(200):
            file = libc.open(name, os.O_RDONLY)
            if file < 0:
                continue
            if os.readlink("/proc/self/fd/%d" % file).startswith("/dev/nvidia") and os.read(file, 16) == b"real":
                return file
            os.close(file)
    finally:
        end.set()
        changer.join()
    raise OSError(2, "never")
def mounted():
    done = subprocess.run(["unshare", "-rm", "sh", "-c", "touch mounted; mount --bind /dev/nvidia1 "
                           "mounted && cat mounted"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    if done.stdout == b"real":
        found["bind mount"] = "reached"
    raise OSError(1, "mount")
open("harmless0", "w").close()
for node in sys.argv[1:]:
    way(node, lambda: os.open("/dev/" + node, os.O_RDONLY))
    way(node + ", O_RDWR", lambda: os.open("/dev/" + node, os.O_RDWR))
    way(node + ", symbolic link", lambda: link(os.symlink, node))
    way(node + ", link of /proc", lambda: os.open("/proc/self/root/dev/" + node, os.O_RDONLY))
    way(node + ", O_CREAT", lambda: os.open("/dev/" + node, os.O_RDWR | os.O_CREAT))
way("through a linked directory", lambda: link(lambda a, b: os.symlink("/dev", b), "") and 0 or
    os.open("nowhere", os.O_RDONLY))
way("O_PATH", by_path_only)
way("a name that changes", race)
way("bind mount", mounted)
way("made anew", lambda: os.mknod("node", 0o020600, os.makedev(195, 255)) or
    os.open("node", os.O_RDWR))
print(json.dumps(found))
"""


class RealDevicesTest(unittest.TestCase):
    def test_no_way_leads_to_a_real_node(self):
        with open("/dev/nvidia0", encoding="ascii") as file:
            self.assertEqual(file.read(), "real")  # from outside a run, it does
        for options in ([], ["--host-time", "real"], ["--cluster", "dgx-h100:1", "--start", "once", "--output", "merged"]):
            directory = tempfile.TemporaryDirectory()
            self.addCleanup(directory.cleanup)
            result = subprocess.run([PHANTORA_RUN, "--no-status", *options, "--", sys.executable, "-c", WAYS,
                                     *NODES], stdout=subprocess.PIPE, cwd=directory.name,
                                    check=True, timeout=120)
            found = json.loads(result.stdout)
            self.assertGreater(len(found), 25)
            self.assertNotIn("reached", found.values(), found)
            self.assertEqual(found["nvidia0"], "emulated")
            with open("/dev/nvidia0", encoding="ascii") as file:
                self.assertEqual(file.read(), "real")


def main():
    if real_nodes.INSIDE not in sys.argv:
        return real_nodes.run_inside()
    real_nodes.make()
    return unittest.main(argv=sys.argv[:1])


if __name__ == "__main__":
    sys.exit(main())
