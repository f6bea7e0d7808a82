#!/usr/bin/env python3
"""What kernels read and write, by their rules, is what single operations have to.

usage: ops_test.py PHANTORA_RUN OPS_PY          runs the tests
       ops_test.py PHANTORA_RUN OPS_PY GPU      prints a table of all operations
"""

import json
import sys
import unittest

import kernel_trace

PHANTORA_RUN, OPS = sys.argv[1:3]


def run(gpu):
    """Expected bytes by operation, and the kernels and copies of each."""
    printed, work, _ = kernel_trace.run(PHANTORA_RUN, gpu, OPS)
    expected = json.loads(printed)
    return expected, kernel_trace.by_operation(expected, work)


def moved(event):
    """Bytes; a copy engine's both reads and writes them."""
    both = event["cat"] == "copy" and event["name"] == "copy in device memory"
    return event["bytes"] * (2 if both else 1)


def table(gpu):
    expected, kernels = run(gpu)
    for name, wanted in expected.items():
        events = kernels[name]
        ratio = sum(map(moved, events)) / wanted
        parts = ", ".join(f"{event.get('family', 'copy')}:{event['name'][:60]}"
                          f"={moved(event) / wanted:.3f}" for event in events)
        print(f"{' ' if abs(ratio - 1) <= 0.1 else '*'} {name:28} {ratio:7.3f}  {parts}")


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
        unknown = {event["name"] for events in kernels.values() for event in events
                   if event.get("family") == "unknown"}
        self.assertEqual(unknown, set())

    def test_a100(self):
        self.check("a100-sxm4-80gb")

    def test_h100(self):
        self.check("h100-sxm5-80gb")


if __name__ == "__main__":
    if len(sys.argv) > 3:
        table(sys.argv[3])
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)
