#!/usr/bin/env python3
"""NCCL's operations as nccl-tests checks and measures them.

usage: nccl_perf_test.py PHANTORA_RUN NCCL_PERF
"""

import re
import subprocess
import sys
import unittest

PHANTORA_RUN, NCCL_PERF = sys.argv[1:3]
OPERATIONS = ["all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv", "broadcast", "reduce"]
TIMEOUT_SECONDS = 120


def nccl_perf(operation, *arguments, options):
    """What rank 0 prints."""
    result = subprocess.run([PHANTORA_RUN, "--host-time", "fixed", *options, "--", NCCL_PERF, operation, *arguments],
                            text=True, check=False, capture_output=True, timeout=TIMEOUT_SECONDS)
    if result.returncode != 0:
        raise AssertionError(result.stdout + result.stderr)
    return result.stdout


def microseconds(output):
    """Out of place, by bytes."""
    rows = re.findall(r"^(?:\[rank 0\])?\s+(\d+)\s+\d+\s+\S+\s+\S+\s+-?\d+\s+([\d.]+)", output, re.M)
    return {int(size): float(time) for size, time in rows}


class DataTest(unittest.TestCase):
    def check(self, output, rows):
        self.assertIn("Out of bounds values : 0 OK", output)
        self.assertEqual(len(microseconds(output)), rows, output)

    def test_one_process_with_several_gpus(self):
        for operation in OPERATIONS:
            for gpus in (2, 3, 8):
                with self.subTest(operation=operation, gpus=gpus):
                    self.check(nccl_perf(operation, "-b", "24", "-e", "1M", "-f", "35", "-g", str(gpus), "-n", "2", "-c",
                                         "1", options=["--gpus", str(gpus), "--nccl-reduce", "full"]), 4)

    def test_sixteen_processes_on_two_hosts(self):
        for operation in OPERATIONS:
            with self.subTest(operation=operation):
                self.check(nccl_perf(operation, "-b", "64", "-e", "256K", "-f", "64", "-n", "2", "-c", "1",
                                     options=["--cluster", "dgx-a100:2", "--nccl-reduce", "full"]), 3)

    def test_types_and_reductions(self):
        for arguments in (("-d", "half", "-o", "max"), ("-d", "bfloat16", "-o", "sum"), ("-d", "int8", "-o", "min"),
                          ("-d", "uint64", "-o", "prod"), ("-d", "double", "-o", "avg")):
            with self.subTest(arguments=arguments):
                self.check(nccl_perf("all_reduce", "-b", "4K", "-e", "4K", "-g", "4", "-n", "1", "-c", "1", *arguments,
                                     options=["--gpus", "4"]), 1)


class TimeTest(unittest.TestCase):
    def test_eight_h100(self):
        """Within the tolerances of the published table (fabric/data/measured/h100.tsv)."""
        times = microseconds(nccl_perf("all_reduce", "-b", "64", "-e", "1G", "-f", "64", "-n", "3", "-c", "0",
                                       options=["--cluster", "dgx-h100:1"]))
        for size, (measured, tolerance) in {64: (14.7, 0.15), 4096: (16.5, 0.15), 256 << 10: (19.5, 0.15),
                                            16 << 20: (123.0, 0.20), 1 << 30: (4016.4, 0.05)}.items():
            self.assertAlmostEqual(times[size] / measured, 1, delta=tolerance, msg=f"{size} bytes")

    def test_all_to_all_is_bound_by_the_network(self):
        """The rule of NCCL's maintainers: N/(N-1) of what the interface of each GPU can."""
        output = nccl_perf("alltoall", "-b", "1G", "-e", "1G", "-n", "1", "-c", "0", options=["--cluster", "dgx-h100:2"])
        bandwidth = float(re.search(r"Avg bus bandwidth\s*: ([\d.]+)", output)[1])
        self.assertAlmostEqual(bandwidth, 91, delta=9)

    def test_the_environment_chooses(self):
        def time(*environment):
            output = subprocess.run(["env", *environment, PHANTORA_RUN, "--host-time", "fixed", "--gpus", "8", "--",
                                     NCCL_PERF, "all_reduce", "-b", "1G", "-e", "1G", "-n", "1", "-c", "0", "-g", "8"],
                                    text=True, check=True, capture_output=True, timeout=TIMEOUT_SECONDS).stdout
            return microseconds(output)[1 << 30]
        # 480 GB/s with NVLS, 370 with rings.
        self.assertAlmostEqual(time("NCCL_ALGO=Ring") / time(), 480 / 370, delta=0.08)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
