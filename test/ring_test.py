#!/usr/bin/env python3
"""However an engine and its workers wait for each other, the engine sees steps as long as the workers' own.

usage: ring_test.py PHANTORA_RUN RING_PY

In `fixed`, where no processor has a part in it, the way of waiting changes nothing at all but the waits themselves.
"""

import itertools
import os
import pathlib
import re
import subprocess
import sys
import unittest

PHANTORA_RUN, RING = map(os.path.abspath, sys.argv[1:3])
PYTHON = (pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
          / "venv/bin/python")
STEPS, KERNELS = 40, 300
# Milliseconds that the engine's own work may take beside the workers': where that counts, Python's.
OWN = {"fixed": 0.02, "learned": 0.2, "measured": 0.2}
# Of the steps of workers that wait in one way or the other, in `fixed`.
SAME = 0.01


class RingTest(unittest.TestCase):
    def step(self, way, mode, workers, *how):
        """Of the engine and the slowest worker, in milliseconds."""
        result = subprocess.run(
            # Of times alone: that the kernels also compute would take five times as long, and change none.
            [PHANTORA_RUN, "--no-status", "--execute", "off", "--gpus", str(workers), "--host-time", mode, "--",
             PYTHON, RING, way, str(STEPS), str(KERNELS), str(workers), *how],
            text=True, capture_output=True, check=False, timeout=240, env=dict(os.environ, OMP_NUM_THREADS="1"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        found = re.search(r"engine ([\d.]+) worker ([\d.]+)", result.stdout)
        self.assertIsNotNone(found, result.stdout + result.stderr)
        return tuple(map(float, found.groups()))

    def check(self, mode):
        took = {}
        for workers, how, way in itertools.product((1, 2), ((), ("graph",)), ("pipe", "spin")):
            with self.subTest(workers=workers, how=how, way=way):
                engine, worker = self.step(way, mode, workers, *how)
                print(f"{mode} {workers} {how} {way}: engine {engine:.3f} ms, worker {worker:.3f} ms", flush=True)
                self.assertGreater(worker, 0.1)
                self.assertGreater(engine, 0.95 * worker)
                self.assertLess(engine, 1.05 * worker + OWN[mode])
                took[workers, how, way] = engine
                if mode == "fixed" and way == "spin":
                    pipe = took[workers, how, "pipe"]
                    self.assertLess(abs(engine - pipe), SAME * pipe)

    def test_fixed(self):
        self.check("fixed")

    def test_learned(self):
        self.check("learned")

    def test_measured(self):
        self.check("measured")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
