#!/usr/bin/env python3
"""Where processor time does not count, a run says the same each time, whatever else the machine does.

usage: repeat_test.py PHANTORA_RUN TRAIN_DDP_PY RING_PY THREADS_PY
"""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN, TRAIN_DDP, RING, THREADS = map(os.path.abspath, sys.argv[1:5])
PYTHON = (pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
          / "venv/bin/python")
# Python's hashes decide in which order it goes through sets, and so what it looks up.
ENVIRONMENT = dict(os.environ, PYTHONHASHSEED="0", OMP_NUM_THREADS="1")
BUSY_LOOPS = 4
BESIDE = "threads of one process ran beside each other"


@contextlib.contextmanager
def busy_loops(number):
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


class RepeatTest(unittest.TestCase):
    def run_once(self, options, command, timeout):
        """What it prints and what its report says."""
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(
                [PHANTORA_RUN, "--no-status", "--report", folder, *options, "--", PYTHON, *map(str, command)],
                text=True, capture_output=True, check=False, timeout=timeout, env=ENVIRONMENT)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            if BESIDE in result.stderr:
                print("note: " + next(line for line in result.stderr.splitlines() if BESIDE in line), flush=True)
            # What ring.py says of real processor time is another matter.
            said = re.sub(r" processor [\d.]+", "", result.stdout)
            return said, (pathlib.Path(folder) / "report.json").read_text(encoding="utf-8")

    def runs(self, options, command, runs, timeout=600):
        """The first as the machine is, and so are others; the last beside busy loops."""
        for run in range(runs):
            with busy_loops(BUSY_LOOPS if 0 < run == runs - 1 else 0):
                yield self.run_once(options, command, timeout)

    def check(self, options, command, runs):
        first, *others = self.runs(options, command, runs)
        for output, report in others:
            self.assertEqual(output, first[0])
            self.assertEqual(report, first[1])

    def check_times(self, options, command, runs):
        """Of ranks. Reports are equal mostly, byte for byte, but not always beside other load (docs/LIMITATIONS.md)."""
        (_, report), *others = self.runs(options, command, runs)
        first = json.loads(report)
        for _, other in others:
            print("note: reports are %s" % ("equal" if other == report else "not equal"), flush=True)
            for rank, same in zip(first["ranks"], json.loads(other)["ranks"], strict=True):
                self.assertAlmostEqual(rank["simulated_s"], same["simulated_s"], delta=1e-5)

    def test_eight_ranks_that_train(self):
        self.check_times(["--host-time", "fixed", "--execute", "off", "--cluster", "dgx-h100:1"],
                         [TRAIN_DDP, "--steps", 4, "--backend", "nccl"], runs=2)

    def test_ranks_with_a_profile_of_the_host(self):
        """Learned once, beside nothing; then steps are equal, also beside other load."""
        with tempfile.TemporaryDirectory() as folder:
            options = ["--host-profile", str(pathlib.Path(folder) / "host.tsv"), "--execute", "off",
                       "--cluster", "dgx-h100:1", "--ranks-per-host", "2"]
            command = [TRAIN_DDP, "--steps", 12, "--backend", "nccl"]
            self.run_once(options, command, timeout=600)
            (_, report), *others = self.runs(options, command, runs=3)
            first = json.loads(report)
            for _, other in others:
                print("note: reports are %s" % ("equal" if other == report else "not equal"), flush=True)
                for rank, same in zip(first["ranks"], json.loads(other)["ranks"], strict=True):
                    self.assertGreater(rank["steps"]["median"]["s"], 0)
                    self.assertAlmostEqual(rank["steps"]["median"]["s"], same["steps"]["median"]["s"], delta=1e-7)

    def test_workers_that_spin(self):
        self.check_times(["--host-time", "fixed", "--execute", "off", "--gpus", "2"],
                         [RING, "spin", 10, 100, 2], runs=3)

    def test_threads(self):
        for mode in ("fixed", "zero"):
            with self.subTest(mode=mode):
                self.check(["--host-time", mode], [THREADS], runs=6)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
