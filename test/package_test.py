#!/usr/bin/env python3
"""The wheel is the same whenever it is made, installs without an index, and its programs find their libraries.

usage: package_test.py PHANTORA_RUN PHANTORA_REPLAY
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile

PHANTORA_RUN, PHANTORA_REPLAY = map(os.path.abspath, sys.argv[1:3])
ROOT = pathlib.Path.cwd()
VERSION = "1.2.3"


def run(*words, **options):
    return subprocess.run(list(map(str, words)), text=True, capture_output=True, check=False, **options)


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.folder = pathlib.Path(directory.name)
        cls.wheel = cls.make("once")

    @classmethod
    def make(cls, name):
        out = cls.folder / name
        out.mkdir()
        made = run(sys.executable, ROOT / "tools/package/wheel.py", "--version", VERSION, "--out", out, "--binary", PHANTORA_REPLAY,
                   PHANTORA_RUN, "--module", *sorted((ROOT / "tools/serving").glob("*.py")), "--setup", ROOT / "tools/setup.sh",
                   "--license", ROOT / "LICENSE", ROOT / "NOTICE")
        assert made.returncode == 0, made.stderr
        return pathlib.Path(made.stdout.strip())

    def test_two_are_the_same_bytes(self):
        self.assertEqual(self.wheel.read_bytes(), self.make("again").read_bytes())

    def test_it_has_no_libraries_of_the_system_and_all_others(self):
        names = zipfile.ZipFile(self.wheel).namelist()
        libraries = {name.rsplit("/", 1)[1].split(".so")[0] for name in names if "/lib/phantora/" in name}
        self.assertIn("libseccomp", libraries)
        self.assertFalse(libraries & {"libc", "libm", "libstdc++", "libgcc_s"}, libraries)

    def test_it_installs_and_works(self):
        environment = self.folder / "environment"
        venv.create(environment, with_pip=True)
        installed = run(environment / "bin/python", "-m", "pip", "install", "--no-index", self.wheel)
        self.assertEqual(installed.returncode, 0, installed.stdout + installed.stderr)
        programs = environment / "bin"
        version = run(programs / "phantora-run", "--version")
        self.assertEqual((version.returncode, version.stderr), (0, ""))
        # All but the system's from the package, wherever it has been put.
        listed = run("ldd", programs / "phantora-run").stdout
        seccomp = next(line for line in listed.splitlines() if "libseccomp" in line)
        self.assertIn(str(environment), os.path.realpath(seccomp.split(" => ")[1].rsplit(" (", 1)[0]))
        self.assertEqual(run(programs / "phantora-replay", "--help").returncode, 0)
        self.assertEqual(run(programs / "phantora-load", "--help").returncode, 0)
        here = {**os.environ, "PHANTORA_CACHE": str(self.folder / "empty")}
        nothing = run(programs / "phantora-run", "--driver", "550.163.01", "--", "true", env=here)
        self.assertEqual(nothing.returncode, 125)
        self.assertIn("Run phantora-run setup", nothing.stderr)

    def test_one_from_source_says_what_sets_it_up(self):
        result = run(PHANTORA_RUN, "setup")
        self.assertEqual(result.returncode, 125)
        self.assertIn("tools/setup.sh drivers", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
