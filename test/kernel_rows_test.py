#!/usr/bin/env python3
"""From launches to rows of the database of measured kernels.

usage: kernel_rows_test.py PHANTORA_RUN KERNEL_ROWS_PY KERNEL_PRICES
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import kernel_trace

PHANTORA_RUN, KERNEL_ROWS, KERNEL_PRICES = sys.argv[1:4]
PROGRAM = """
import torch
x = torch.zeros(1024, 1024, device="cuda", dtype=torch.float16)
for _ in range(3): x @ x
y = x + x
torch.cuda.synchronize()
"""


def rows_py(*arguments):
    return subprocess.run([sys.executable, KERNEL_ROWS, *map(str, arguments)], check=True, text=True,
                          capture_output=True)


class KernelRowsTest(unittest.TestCase):
    def setUp(self):
        # pylint: disable=consider-using-with
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)

    def file(self, name, text):
        path = self.root / name
        path.write_text(text, encoding="utf-8")
        return path

    def log(self, *options):
        path = self.root / "kernels.jsonl"
        subprocess.run([PHANTORA_RUN, "--gpu", "a100-sxm4-80gb", "--host-time", "fixed", *options,
                        "--log-kernels", path, "--", kernel_trace.PYTHON, "-c", PROGRAM],
                       check=True, capture_output=True, timeout=100)
        return path

    def test_from_a_launch_to_a_measured_price(self):
        log = self.log("--model-only")
        launches = [json.loads(line) for line in log.read_text().splitlines()]
        product = next(launch for launch in launches if launch["family"] == "gemm")
        self.assertEqual(product["launches"], 3)
        self.assertEqual(product["source"], "modelled")
        self.assertEqual(product["shape"][:4], [1024, 1024, 1024, 1])
        self.assertEqual(len(product["parameters"]) // 2,
                         max(offset + size for offset, size in product["layout"]))
        empty = self.file("none.tsv", "\t".join(
            ["family", "precision", "direction", "kernel", "shape", "flops", "bytes", "tiles",
             "time_us", "error", "source"]) + "\n")
        missing = rows_py("missing", empty, log).stdout
        self.assertIn("were not measured: 100.0%", missing)
        row = next(line for line in missing.splitlines() if line.startswith("gemm"))
        # Whoever measures it fills in the rest.
        measured = self.file("some.tsv", missing.splitlines()[1] + "\n"
                             + row.replace("?\t?\t?", "20\t0.02\tme") + "\n")
        compared = subprocess.run([KERNEL_PRICES, "a100-sxm4-80gb", measured], check=True, text=True,
                                  capture_output=True).stdout.splitlines()
        self.assertEqual(len(compared), 2)
        self.assertEqual(compared[1].split("\t")[5], "20")
        again = rows_py("missing", measured, log).stdout
        self.assertNotIn("\n" + row, again)

    def test_what_is_in_the_database_is_measured(self):
        launches = [json.loads(line) for line in self.log().read_text().splitlines()]
        product = next(launch for launch in launches if launch["family"] == "gemm")
        self.assertEqual((product["source"], product["time_us"], product["error"]),
                         ("measured", 17.99, 0.03))

    HEADER = "family\tprecision\tdirection\tkernel\tshape\tflops\tbytes\ttiles\ttime_us\terror\tsource\n"
    ROW = "gemm\tfp16\tforward\t*\t%s\t1\t1\t1\t%s\t%s\t%s\n"

    def test_query_merge_and_diff(self):
        old = self.file("old.tsv", "# a: someone.\n" + self.HEADER
                        + self.ROW % ("8x8x8x1", "10", "0.05", "a")
                        + self.ROW % ("16x8x8x1", "20", "0.05", "a"))
        new = self.file("new.tsv", "# b: another.\n" + self.HEADER
                        + self.ROW % ("8x8x8x1", "11", "0.01", "b")
                        + self.ROW % ("32x8x8x1", "30", "0.05", "b"))
        self.assertEqual(rows_py("query", old, "16").stdout.splitlines()[2:],
                         [(self.ROW % ("16x8x8x1", "20", "0.05", "a")).strip()])
        merged = rows_py("merge", old, new)
        self.assertEqual(len(merged.stdout.splitlines()), 2 + 1 + 3)
        self.assertIn("\t11\t0.01\tb", merged.stdout)
        self.assertNotIn("\t10\t", merged.stdout)
        self.assertIn("10 us (a, error 0.05) and 11 us (b, error 0.01)", merged.stderr)
        self.assertEqual(rows_py("diff", old, new).stdout.splitlines(), [
            "- gemm fp16 forward * 16x8x8x1: 20 us", "+ gemm fp16 forward * 32x8x8x1: 30 us",
            "  gemm fp16 forward * 8x8x8x1: 10 -> 11 us (+10.0%)"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
