#!/usr/bin/env python3
"""Packages are the same whenever they are made, install without an index, and their programs find their libraries.

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
        cls.wheel, cls.deb = cls.make("once")

    @classmethod
    def make(cls, name):
        out = cls.folder / name
        out.mkdir()
        return [cls.written(out, kind) for kind in ("wheel", "deb")]

    @classmethod
    def written(cls, out, kind):
        made = run(sys.executable, ROOT / f"tools/package/{kind}.py", "--version", VERSION, "--out", out, "--binary", PHANTORA_REPLAY,
                   PHANTORA_RUN, "--module", *sorted((ROOT / "tools/serving").glob("*.py")), "--setup", ROOT / "tools/setup.sh",
                   "--license", ROOT / "LICENSE", ROOT / "NOTICE")
        assert made.returncode == 0, made.stderr
        return pathlib.Path(made.stdout.strip())

    def test_two_are_the_same_bytes(self):
        wheel, deb = self.make("again")
        self.assertEqual(self.wheel.read_bytes(), wheel.read_bytes())
        self.assertEqual(self.deb.read_bytes(), deb.read_bytes())

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

    def test_what_it_says_of_itself_is_where_it_is_looked_for(self):
        names = {name.split(".data/data/")[-1] for name in zipfile.ZipFile(self.wheel).namelist()}
        listed = run("dpkg-deb", "--contents", self.deb).stdout
        for path in ("share/man/man1/phantora-run.1", "share/bash-completion/completions/phantora-run",
                     "share/zsh/site-functions/_phantora-run", "share/fish/vendor_completions.d/phantora-run.fish"):
            self.assertIn(path, names)
            self.assertIn(f"./usr/{path}", listed)

    def test_debians_package_unpacks_and_works(self):
        root = self.folder / "root"
        unpacked = run("dpkg-deb", "--extract", self.deb, root)
        self.assertEqual(unpacked.returncode, 0, unpacked.stderr)
        version = run(root / "usr/bin/phantora-run", "--version")
        self.assertEqual((version.returncode, version.stderr), (0, ""))
        loads = run("ldd", root / "usr/bin/phantora-run").stdout
        seccomp = next(line for line in loads.splitlines() if "libseccomp" in line)
        self.assertIn(str(root), os.path.realpath(seccomp.split(" => ")[1].rsplit(" (", 1)[0]))
        load = run(sys.executable, root / "usr/bin/phantora-load", "--help",
                   env={**os.environ, "PYTHONPATH": str(root / "usr/lib/python3/dist-packages")})
        self.assertEqual(load.returncode, 0, load.stderr)
        nothing = run(root / "usr/bin/phantora-run", "--driver", "550.163.01", "--", "true",
                      env={**os.environ, "PHANTORA_CACHE": str(self.folder / "empty")})
        self.assertIn("Run phantora-run setup", nothing.stderr)
        field = run("dpkg-deb", "--field", self.deb).stdout
        self.assertIn("Depends: libc6 (>= 2.35)", field)
        # All belongs to root, wherever it was made.
        owners = {line.split()[1] for line in run("dpkg-deb", "--contents", self.deb).stdout.splitlines()}
        self.assertEqual(owners, {"root/root"})

    def test_one_from_source_says_what_sets_it_up(self):
        result = run(PHANTORA_RUN, "setup")
        self.assertEqual(result.returncode, 125)
        self.assertIn("tools/setup.sh drivers", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
