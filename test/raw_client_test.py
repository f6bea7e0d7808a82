#!/usr/bin/env python3
"""Clients without any of NVIDIA's libraries: one that works, and one that makes every control there is.

usage: raw_client_test.py PHANTORA_RUN RAW_CLIENT RAW_CONTROLS TABLE

The table has what the driver answers to controls that no library was seen to make (raw_client/controls.tsv). What of them
is not emulated must be refused, and told.
"""

import collections
import pathlib
import re
import subprocess
import sys
import unittest

PHANTORA_RUN, RAW_CLIENT, RAW_CONTROLS, TABLE = sys.argv[1:5]
GPUS = {"a100-sxm4-80gb": "NVIDIA A100-SXM4-80GB", "h100-sxm5-80gb": "NVIDIA H100 80GB HBM3"}
Row = collections.namedtuple("Row", "handler here driver source")


def run(gpu, program, *options):
    words = [PHANTORA_RUN, "--no-status", "--gpus", "1", "--gpu", gpu, *options, "--", program]
    return subprocess.run(words, text=True, capture_output=True, check=False, timeout=120)


def table():
    rows = {}
    for line in pathlib.Path(TABLE).read_text().splitlines():
        if not line.startswith("#"):
            control, exporter, *rest = line.split("\t")
            rows[control, exporter] = Row(*rest)
    return rows


class RawClientTest(unittest.TestCase):
    def test_a_client_works(self):
        for gpu, product in GPUS.items():
            for mode in ("measured", "fixed"):
                with self.subTest(gpu=gpu, mode=mode):
                    result = run(gpu, RAW_CLIENT, "--execute", "all", "--host-time", mode)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    said = result.stdout.splitlines()
                    self.assertEqual(said[0], f"{product}, driver 550.163.01")
                    self.assertEqual(said[1:], ["objects", "addresses", "copies", "kernel", "event", "kernel", "fault",
                                                "all of it"])

    def test_all_controls(self):
        rows = table()
        for gpu in GPUS:
            with self.subTest(gpu=gpu):
                result = run(gpu, RAW_CONTROLS)
                self.assertEqual(result.returncode, 0, result.stderr)
                told = set(re.findall(r"unknown control (0x[0-9a-f]+)", result.stderr))
                counts = collections.Counter()
                seen = set()
                for line in result.stdout.splitlines():
                    control, exporter, status = line.split("\t")
                    seen.add((control, exporter))
                    row = rows.get((control, exporter))
                    if row is None:
                        counts["asked by libraries, too"] += 1
                        self.assertNotIn(control, told)
                    elif row.here in ("same", "assumed"):
                        counts[row.here] += 1
                        self.assertEqual(status, row.driver, line)
                        self.assertNotIn(control, told)
                    else:
                        counts[row.here] += 1
                        self.assertEqual(status, "NV_ERR_NOT_SUPPORTED", line)
                self.assertEqual(set(rows) - seen, set())
                # Of many, the first ones are told by number.
                self.assertGreaterEqual(len(told), 20)
                print(f"{gpu}: {len(seen)} controls: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
