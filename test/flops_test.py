#!/usr/bin/env python3
"""What the rules make of launches is what PyTorch counts.

usage: flops_test.py PHANTORA_RUN FLOPS_PY
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN, FLOPS = sys.argv[1:3]
PYTHON = (pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
          / "venv/bin/python")


def run(gpu, mode):
    """FLOPs by PyTorch's count, the kernels in the trace, and what phantora-run says."""
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder, "trace.json")
        result = subprocess.run([PHANTORA_RUN, "--gpu", gpu, "--host-time", "fixed", "--trace",
                                 trace, "--", PYTHON, FLOPS, mode], check=False, text=True,
                                capture_output=True, timeout=150)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        kernels = [event["args"] | event for event in json.loads(trace.read_text(encoding="utf-8"))
                   if event.get("cat") == "kernel"]
    return int(result.stdout), kernels, result.stderr


class FlopsTest(unittest.TestCase):
    def check(self, gpu, mode):
        counted, kernels, messages = run(gpu, mode)
        self.assertGreater(counted, 1e11)
        found = sum(kernel["flops"] for kernel in kernels
                    if kernel["family"] in ("gemm", "attention"))
        self.assertEqual(found, counted)
        self.assertNotIn("contradicts its rule", messages)
        time = collections.Counter()
        for kernel in kernels:
            time[kernel["time"]] += kernel["dur"]
        self.assertGreater(time["modelled"], 0.95 * sum(time.values()))

    def test_a100(self):
        for mode in ("bf16", "fp16", "fp32", "tf32"):
            with self.subTest(mode):
                self.check("a100-sxm4-80gb", mode)

    def test_h100(self):
        for mode in ("bf16", "fp16", "fp32", "tf32"):
            with self.subTest(mode):
                self.check("h100-sxm5-80gb", mode)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
