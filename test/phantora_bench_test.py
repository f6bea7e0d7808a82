#!/usr/bin/env python3
"""phantora_bench.pyz on an emulated GPU: what it measures there is what the kernels were priced at.

usage: phantora_bench_test.py PHANTORA_RUN PHANTORA_BENCH_PYZ KERNEL_ROWS_PY KERNEL_PRICES
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import kernel_trace

PHANTORA_RUN, BENCH, KERNEL_ROWS, KERNEL_PRICES = sys.argv[1:5]
GPU = "h100-sxm5-80gb"
sys.path.insert(0, os.path.dirname(os.path.realpath(KERNEL_ROWS)))
from bench import ops, rows as bench_rows  # pylint: disable=wrong-import-position
from bench.catalogue import define_all  # pylint: disable=wrong-import-position
from bench.samples import summary  # pylint: disable=wrong-import-position


def phantora(*options, mode="zero"):
    # The price of a kernel is then all that passes.
    return subprocess.run([PHANTORA_RUN, "--gpu", GPU, "--host-time", mode, "--model-only", "--no-status",
                           *options], text=True, capture_output=True, timeout=400, check=False)


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rows_of(path):
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


class EmulatedTest(unittest.TestCase):
    """The least that there is of every family, on an emulated H100."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = pathlib.Path(cls.folder.name)
        cls.file = cls.root / "bench.jsonl"
        # A second and a half of simulated time are over before all is measured.
        cls.cut = cls.measure("--minutes", "0.025")
        cls.first = read(cls.file)
        # As if it had been killed while it wrote.
        with cls.file.open("a", encoding="utf-8") as file:
            file.write('{"op": "mm", "fam')
        cls.whole = cls.measure()
        cls.lines = read(cls.file)
        cls.rows = subprocess.run(
            [sys.executable, BENCH, "rows", cls.file, "--gpu", GPU, "--phantora-run", PHANTORA_RUN, "--python",
             kernel_trace.PYTHON, "--model-only", "-o", cls.root / "out"], text=True, capture_output=True,
            timeout=400, check=False)

    @classmethod
    def measure(cls, *options):
        return phantora("--", kernel_trace.PYTHON, BENCH, "measure", "-o", cls.file, "--level", "0",
                        "--most-bytes", str(1 << 24), "--no-profiler", *options)

    def test_a_cut_leaves_a_whole_file_that_is_gone_on_with(self):
        self.assertEqual(self.cut.returncode, 0, self.cut)
        self.assertIn("time is over", self.cut.stdout)
        self.assertEqual(self.whole.returncode, 0, self.whole)
        self.assertGreater(len(self.first), 5)
        self.assertLess(len(self.first), len(self.lines))
        self.assertEqual(self.first, self.lines[:len(self.first)])
        keys = [ops.key_of(line) for line in self.lines[1:]]
        self.assertEqual(len(keys), len(set(keys)))
        define_all()
        self.assertEqual(set(keys), {op.key for op in ops.OPS.values() if op.level == 0
                                     and op.parameters.get("bytes", 0) <= 1 << 24})

    def test_what_is_said_of_the_gpu(self):
        header = self.lines[0]
        self.assertEqual((header["gpu"], header["sms"], header["max_sm_mhz"]),
                         ("NVIDIA H100 80GB HBM3", 132, 1980))
        self.assertRegex(header["driver"], r"^\d+\.\d+")

    def test_everything_can_be_measured(self):
        skipped = [line for line in self.lines[1:] if "skipped" in line]
        self.assertEqual(skipped, [])
        for line in self.lines[1:]:
            self.assertGreater(line["time_us"], 0, line)
            if not line.get("host"):
                self.assertLess(line["error"], 0.05, line)
        families = {line["family"] for line in self.lines[1:]}
        self.assertEqual(families, {"gemm", "attention", "elementwise", "reduction", "rows", "index", "optimizer",
                                    "layout", "convolution", "copy", "host"})

    def test_rows_are_what_kernels_were_priced_at(self):
        self.assertEqual(self.rows.returncode, 0, self.rows)
        rows = rows_of(self.root / "out/kernels.tsv")
        log, priced = self.root / "kernels.jsonl", self.root / "priced.tsv"
        result = phantora("--log-kernels", log, "--", kernel_trace.PYTHON, BENCH, "rows", "--run", self.file,
                          mode="fixed")
        self.assertEqual(result.returncode, 0, result)
        priced.write_text(subprocess.run([sys.executable, KERNEL_ROWS, "priced", log], check=True, text=True,
                                         capture_output=True).stdout, encoding="utf-8")
        of = ("family", "precision", "direction", "shape", "flops", "bytes")
        prices = {}
        for row in rows_of(priced):
            prices.setdefault(tuple(row[column] for column in of), []).append(row)
        for row in rows:
            same = [price for price in prices[tuple(row[column] for column in of)]
                    if row["kernel"] in ("*", price["kernel"])]
            near = [price for price in same if abs(float(price["time_us"]) / float(row["time_us"]) - 1) < 0.003]
            self.assertTrue(near, (row, same))
        count = {family: sum(row["family"] == family for row in rows) for family in
                 ("gemm", "attention", "elementwise", "reduction", "rows", "layout", "convolution")}
        self.assertGreaterEqual(count["gemm"], 15)
        for family, least in (("attention", 4), ("elementwise", 15), ("reduction", 5), ("rows", 4), ("layout", 1),
                              ("convolution", 4)):
            self.assertGreaterEqual(count[family], least, family)

    def test_what_gave_no_row_is_said(self):
        out = self.rows.stdout
        self.assertIn("own times were not measured", out)
        named = sum(line.startswith("  ") for line in out.splitlines())
        operations = sum(not line.get("host") and line["family"] != "copy" for line in self.lines[1:])
        self.assertLess(named, 0.4 * operations)

    def test_the_model_says_the_same_of_the_rows(self):
        compared = subprocess.run([KERNEL_PRICES, GPU, self.root / "out/kernels.tsv"], check=True, text=True,
                                  capture_output=True).stdout.splitlines()[1:]
        self.assertGreater(len(compared), 50)
        for cells in (line.split("\t") for line in compared):
            if cells[0] == "attention" and cells[4] != "-" or cells[:2] == ["gemm", "bf16"]:
                self.assertAlmostEqual(float(cells[5]) / float(cells[6]), 1, delta=0.01, msg=cells)

    def test_where_rows_come_from_is_said(self):
        text = (self.root / "out/kernels.tsv").read_text(encoding="utf-8")
        source = rows_of(self.root / "out/kernels.tsv")[0]["source"]
        self.assertIn(f"# {source}: phantora_bench.py 1 on NVIDIA H100 80GB HBM3", text)
        self.assertIn("by CUDA events", text)
        merged = subprocess.run([sys.executable, KERNEL_ROWS, "merge", self.root / "out/kernels.tsv"], check=True,
                                text=True, capture_output=True).stdout
        self.assertEqual(merged, text)

    def test_costs_of_the_host(self):
        costs = {(row["call"], row["bytes"], row["side"]): float(row["time_us"])
                 for row in rows_of(self.root / "out/host_costs.tsv")}
        # 1.5 us and 55 GB/s.
        self.assertAlmostEqual(costs["copy_h2d_pinned", "16777216", "device"], 1.5 + 16777216 / 55e3, delta=1)
        self.assertAlmostEqual(costs["launch_and_synchronize", "-", "host"], 2, delta=0.1)
        self.assertIn(("context", "-", "host"), costs)

    def test_another_gpu_is_refused(self):
        result = subprocess.run([PHANTORA_RUN, "--gpu", "a100-sxm4-80gb", "--host-time", "zero", "--",
                                 kernel_trace.PYTHON, BENCH, "measure", "-o", self.file, "--no-profiler"],
                                text=True, capture_output=True, timeout=100, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("of another GPU", result.stderr)
        self.assertEqual(read(self.file), self.lines)


class SamplesTest(unittest.TestCase):
    def test_outliers_are_rejected(self):
        good = [1e-4 + i * 1e-7 for i in range(-10, 11)]
        found = summary(good + [5e-4, 9e-4], 1e-9)
        self.assertEqual((found["samples"], found["rejected"]), (23, 2))
        self.assertAlmostEqual(found["time_us"], 100)
        self.assertAlmostEqual(found["error"], 0.008, delta=0.002)

    def test_no_less_than_the_resolution(self):
        self.assertEqual(summary([1e-5] * 7, 5e-7)["error"], 0.05)


class JoinTest(unittest.TestCase):
    """Operations of several kernels."""

    SYMBOLS = ["_ZN2at6native8reduce_kIfLi4EEEvPT_", "_ZN2at6native4normIN3c108BFloat16EEEvPKT_i"]
    NAMES = ["void at::native::reduce_k<float, 4>(float*)",
             "void at::native::norm<c10::BFloat16>(c10::BFloat16 const*, int)"]

    @staticmethod
    def row(name, **more):
        return {"family": "rows", "precision": "fp32", "direction": "forward", "kernel": name, "shape": "-",
                "flops": "0", "bytes": "8", "tiles": "0", "time_us": "?", "error": "?", "source": "?"} | more

    def join(self, kernels, others=0, known=(True, True)):
        line = {"op": "layer_norm", "parameters": {}, "l2": "warm", "family": "rows", "time_us": 30,
                "error": 0.02}
        if kernels is not None:
            line["kernels"] = [{"name": name, "time_us": 10 + i} for i, name in enumerate(kernels)]
        launches = [{"symbol": symbol, "row": self.row(symbol[-6:]) if is_known else None}
                    for symbol, is_known in zip(self.SYMBOLS, known)]
        rows, left_out = bench_rows.join([line], {ops.key_of(line): (launches, others)})
        return [(row["time_us"], row["error"]) for row in rows], list(left_out)

    def test_work_that_was_measured_twice(self):
        row = bench_rows.one([(self.row("k"), 10, 0.01), (self.row("k"), 11, 0.02)])
        self.assertEqual((row["time_us"], row["error"]), ("10.5", "0.0476"))

    def test_by_their_names(self):
        self.assertEqual([bench_rows.demangle(symbol) for symbol in self.SYMBOLS], self.NAMES)
        self.assertEqual(self.join(self.NAMES)[1], [])
        self.assertEqual(sorted(self.join(self.NAMES)[0]), [("10", "0.02"), ("11", "0.02")])
        self.assertEqual(len(self.join([*self.NAMES, "Memset (Device)"], others=1)[0]), 2)
        # Of another version of PyTorch, with other template arguments.
        other = ["void at::native::reduce_k<float, 8, true>(float*)",
                 "void at::native::(anonymous namespace)::norm<c10::BFloat16>(c10::BFloat16 const*)"]
        self.assertEqual(len(self.join(other)[0]), 2)

    def test_what_cannot_be_told_apart_is_left_out(self):
        for kernels in (None, [], self.NAMES[:1], self.NAMES[::-1], [*self.NAMES, self.NAMES[0]]):
            rows, left_out = self.join(kernels)
            self.assertEqual(rows, [], kernels)
            self.assertEqual(len(left_out), 1)

    def test_a_kernel_that_nobody_knows_takes_no_other_with_it(self):
        rows, left_out = self.join(self.NAMES, known=(True, False))
        self.assertEqual(rows, [("10", "0.02")])
        self.assertIn("does not know", left_out[0])

    def test_names(self):
        for name, own in ((self.NAMES[0], "reduce_k"), (self.NAMES[1], "norm"), ("sgemm_128", "sgemm_128"),
                          ("void f<(int)3, g<h> >::k<2>(int (*)(float))", "k")):
            self.assertEqual(bench_rows.plain(name), own)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
