#!/usr/bin/env python3
"""Programs that try to leave their run: as root and as an ordinary user, none gets out.

usage: escapes_test.py PHANTORA_RUN ESCAPES

The machine seems to have GPUs (real_nodes). `escapes` takes its ways one after another, each in a process of its own;
beside the run there are processes of the same user, which it must not harm: one of nobody's, and a rank of another run.
"""

import collections
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import real_nodes

PHANTORA_RUN, ESCAPES = (os.path.abspath(path) for path in sys.argv[1:3])
CACHE = pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
NOBODY = 65534
LEAST = 150  # ways
MODES = ([], ["--host-time", "real"])
# What would leave the run, or what a program must not wait for.
BAD = ("reached", "nothing said")


def is_root_of_the_machine():
    with open("/proc/self/uid_map", encoding="ascii") as file:
        return file.read().split()[:2] == ["0", "0"]


def as_user(words):
    """The command, as an ordinary user."""
    return ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", *words]


class EscapesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Where an ordinary user finds the programs, and may write.
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        os.chmod(directory.name, 0o755)
        cls.phantora_run, cls.escapes = (shutil.copy(program, directory.name) for program in (PHANTORA_RUN, ESCAPES))
        drivers = os.path.join(directory.name, "cache/drivers")
        os.makedirs(drivers)
        subprocess.run(["mount", "-o", "bind,ro", CACHE / "drivers", drivers], check=True)
        cls.addClassCleanup(subprocess.run, ["umount", "-l", drivers], check=True)
        cls.environment = {**os.environ, "PHANTORA_CACHE": os.path.dirname(drivers)}

    def start(self, words, **options):
        process = subprocess.Popen(words, env=self.environment, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def tried(self, prefix, options):
        """What came of each way."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        os.chmod(directory.name, 0o777)
        before = real_nodes.state()
        sleeps = self.start(prefix(["sleep", "1000"]))
        # Says its process number, which is the machine's.
        other = self.start(prefix([self.phantora_run, "--no-status", "--host-time", "real", "--", "sh", "-c",
                                   "echo $$; exec sleep 1000"]), stdout=subprocess.PIPE, text=True, cwd=directory.name)
        rank = int(other.stdout.readline() or self.fail("the other run does not start"))
        self.addCleanup(other.stdout.close)
        result = subprocess.run(
            prefix([self.phantora_run, "--no-status", *options, "--", self.escapes, str(sleeps.pid), str(rank)]),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=directory.name, check=False, timeout=800, env=self.environment)
        pathlib.Path(os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR", directory.name), "escapes.txt").write_text(
            result.stdout, encoding="utf-8")
        self.assertEqual(result.returncode, 0, result.stdout)
        found = dict(line.split("\t") for line in result.stdout.splitlines() if "\t" in line)
        self.assertGreaterEqual(len(found), LEAST)
        self.assertIsNone(sleeps.poll(), "a process of no run has ended")
        self.assertIsNone(other.poll(), "another run has ended")
        for process in (sleeps.pid, rank):
            status = pathlib.Path(f"/proc/{process}/status").read_text(encoding="ascii")
            self.assertIn("State:\tS", status)
        self.assertEqual(real_nodes.state(), before)
        return found

    def check(self, prefix):
        for options in MODES:
            with self.subTest(options=options):
                found = self.tried(prefix, options)
                bad = {way: outcome for way, outcome in found.items() if outcome in BAD}
                print(len(found), "ways:", dict(collections.Counter(found.values()).most_common()), file=sys.stderr)
                self.assertEqual(bad, {})
                # The emulated machine is there by its names; that others are not, is not for want of a GPU.
                for way in ("open /dev/nvidia0", "openat2 /dev/nvidiactl", "own handler of SIGSYS"):
                    self.assertEqual(found[way], "emulated", way)

    def test_as_root(self):
        self.check(lambda words: words)

    def test_as_an_ordinary_user(self):
        if not is_root_of_the_machine():
            self.skipTest("the files that stand for nodes would be this user's own, as real ones are not")
        self.check(as_user)


def main():
    if real_nodes.INSIDE not in sys.argv:
        return real_nodes.run_inside(as_root_of_the_machine=True)
    real_nodes.make()
    return unittest.main(argv=sys.argv[:1])


if __name__ == "__main__":
    sys.exit(main())
