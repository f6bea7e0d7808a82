#!/usr/bin/env python3
"""What kernels read and write, by their rules, is what single operations have to.

usage: ops_test.py PHANTORA_RUN OPS_PY          runs the tests
       ops_test.py PHANTORA_RUN OPS_PY GPU      prints a table of all operations
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN, OPS = sys.argv[1:3]
PYTHON = (pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
          / "venv/bin/python")
PAUSE_US = 4e6  # ops.py sleeps for longer between operations


def run(gpu):
    """Expected bytes by operation, and the kernels of each as the trace has them."""
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder, "trace.json")
        result = subprocess.run([PHANTORA_RUN, "--gpu", gpu, "--host-time", "fixed", "--trace",
                                 trace, "--", PYTHON, OPS], check=False, text=True,
                                capture_output=True, timeout=280)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        work = [event["args"] | event for event in json.loads(trace.read_text(encoding="utf-8"))
                if event.get("cat") in ("kernel", "copy")]
    groups, last = [], -PAUSE_US
    for event in sorted(work, key=lambda event: event["ts"]):
        if event["ts"] - last > PAUSE_US:
            groups.append([])
        groups[-1].append(event)
        last = max(last, event["ts"] + event["dur"])
    expected = json.loads(result.stdout)
    if len(groups) != 2 * len(expected):  # each is set up, then run once more
        raise AssertionError(f"{len(groups)} groups of kernels for {len(expected)} operations")
    return expected, dict(zip(expected, groups[1::2]))


def moved(event):
    """Bytes; a copy engine's both reads and writes them."""
    both = event["cat"] == "copy" and event["name"] == "copy in device memory"
    return event["bytes"] * (2 if both else 1)


def table(gpu):
    expected, kernels = run(gpu)
    for name, wanted in expected.items():
        events = kernels[name]
        ratio = sum(map(moved, events)) / wanted
        families = ", ".join(f"{event.get('family', 'copy')}:{event['name'][:60]}"
                             f"={moved(event) / wanted:.3f}" for event in events)
        print(f"{' ' if abs(ratio - 1) <= 0.1 else '*'} {name:28} {ratio:7.3f}  {families}")


class OpsTest(unittest.TestCase):
    def check(self, gpu):
        expected, kernels = run(gpu)
        wrong = []
        for name, wanted in expected.items():
            found = sum(map(moved, kernels[name]))
            if abs(found / wanted - 1) > 0.1:
                wrong.append(f"{name}: {found / wanted:.2f}")
        self.assertGreaterEqual(len(expected), 60)
        self.assertLessEqual(len(wrong), 0.05 * len(expected), wrong)

    def test_a100(self):
        self.check("a100-sxm4-80gb")

    def test_h100(self):
        self.check("h100-sxm5-80gb")


if __name__ == "__main__":
    if len(sys.argv) > 3:
        table(sys.argv[3])
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)
