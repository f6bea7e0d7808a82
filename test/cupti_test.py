#!/usr/bin/env python3
"""NVIDIA's own CUPTI sees each kernel that the emulated GPU ran, as long as it took in simulated time.

usage: cupti_test.py PHANTORA_RUN PROGRAM
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN, PROGRAM = sys.argv[1:3]
VENV = pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora", "venv")
CUPTI, = VENV.glob("lib/python3*/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12")


class CuptiTest(unittest.TestCase):
    def check(self, *options):
        with tempfile.TemporaryDirectory() as out:
            words = [PHANTORA_RUN, "--no-status", "--gpus", "1", "--out", out, *options, "--", VENV / "bin/python",
                     PROGRAM, CUPTI]
            result = subprocess.run(words, text=True, capture_output=True, check=False, timeout=200)
            self.assertEqual(result.returncode, 0, result.stderr)
            events = json.loads((pathlib.Path(out) / "trace.json").read_text(encoding="utf-8"))
        ran = sorted((event for event in events if event.get("cat") == "kernel" and event["ph"] == "X"),
                     key=lambda event: event["ts"])
        seen = json.loads(result.stdout.splitlines()[-1])
        self.assertGreater(len(ran), 40)
        self.assertEqual(len(seen), len(ran))
        self.assertTrue(any("reduce_kernel" in kernel["name"] for kernel in seen), seen)
        for kernel, event in zip(seen, ran):
            # CUPTI notes the beginning some instructions in, and relates two clocks.
            self.assertAlmostEqual((kernel["end_ns"] - kernel["start_ns"]) / 1e3, event["dur"],
                                   delta=0.01 + 0.005 * event["dur"])
        for one, other in zip(seen, seen[1:]):
            self.assertLessEqual(one["end_ns"], other["start_ns"] + 1)

    def test_h100(self):
        self.check("--gpu", "h100-sxm5-80gb")

    def test_a100(self):
        self.check("--gpu", "a100-sxm4-80gb")

    def test_kernels_that_are_not_executed_are_seen(self):
        self.check("--gpu", "h100-sxm5-80gb", "--execute", "1000")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
