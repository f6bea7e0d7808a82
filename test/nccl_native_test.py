#!/usr/bin/env python3
"""NVIDIA's own NCCL, whose launches are decoded (--nccl native).

usage: nccl_native_test.py PHANTORA_RUN NCCL_PERF NCCL_OPS
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

PHANTORA_RUN, NCCL_PERF, NCCL_OPS = sys.argv[1:4]
OPERATIONS = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv"]
CACHE = pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
PYTHON = CACHE / "venv/bin/python"
TIMEOUT_SECONDS = 400
# Between the times with ours, told to use rings as NVIDIA's does here, and with NVIDIA's.
TOLERANCE = 0.03


def run(options, command, environment=None):
    result = subprocess.run([PHANTORA_RUN, "--host-time", "fixed", *options, "--", *command], text=True, check=False,
                            capture_output=True, timeout=TIMEOUT_SECONDS, env={**os.environ, **(environment or {})})
    return result.returncode, result.stdout + result.stderr


def libnccl():
    """The folder of PyTorch's libnccl."""
    found = list((CACHE / "venv").glob("lib/python3*/site-packages/nvidia/nccl/lib"))
    assert found, "tools/setup.sh installs PyTorch with its libnccl"
    return str(found[0])


def nccl_perf(native, gpus, *arguments):
    environment = {"LD_LIBRARY_PATH": libnccl()} if native else {"NCCL_ALGO": "Ring"}
    options = ["--gpus", str(gpus), "--nccl-reduce", "full", "--nccl", "native" if native else "ours"]
    status, output = run(options, [NCCL_PERF, *arguments, "-g", str(gpus), "-n", "2"], environment)
    assert status == 0 and "not emulated" not in output, output
    return output


def microseconds(output):
    """Out of place, by bytes."""
    rows = re.findall(r"^\s+(\d+)\s+\d+\s+\S+\s+\S+\s+-?\d+\s+([\d.]+)", output, re.M)
    return {int(size): float(time) for size, time in rows}


class NcclPerfTest(unittest.TestCase):
    def test_data_and_times_of_all_operations(self):
        for operation in OPERATIONS:
            for gpus in (2, 4):
                with self.subTest(operation=operation, gpus=gpus):
                    sizes = ("-b", "96", "-e", "6M", "-f", "256", "-c", "1")
                    native = nccl_perf(True, gpus, operation, *sizes)
                    self.assertIn("NCCL version 221", native)
                    self.assertIn("Out of bounds values : 0 OK", native)
                    times, ours = microseconds(native), microseconds(nccl_perf(False, gpus, operation, *sizes))
                    self.assertEqual(len(times), 3, native)
                    for size, time in times.items():
                        self.assertAlmostEqual(time / ours[size], 1, delta=TOLERANCE, msg=f"{size} bytes")

    def test_types_and_reductions(self):
        for arguments in (("-d", "half", "-o", "max"), ("-d", "bfloat16", "-o", "avg"), ("-d", "int8", "-o", "min"),
                          ("-d", "int32", "-o", "avg"), ("-d", "uint64", "-o", "prod"), ("-d", "double", "-o", "avg")):
            with self.subTest(arguments=arguments):
                self.assertIn("Out of bounds values : 0 OK",
                              nccl_perf(True, 2, "all_reduce", "-b", "4K", "-e", "4K", "-c", "1", *arguments))


class RefusalTest(unittest.TestCase):
    def test_connections_over_the_host(self):
        """As between hosts: NCCL's own threads would wait for what its kernels write."""
        status, output = run(["--gpus", "2", "--nccl", "native"], [NCCL_PERF, "all_reduce", "-g", "2", "-n", "1"],
                             {"LD_LIBRARY_PATH": libnccl(), "NCCL_P2P_DISABLE": "1"})
        self.assertNotEqual(status, 0)
        self.assertRegex(output, r"rank \d reaches rank \d over the host's memory or a network")
        self.assertIn("Without --nccl native", output)
        self.assertIn("NCCL launch that cannot be decoded", output)


class PyTorchTest(unittest.TestCase):
    def ranks(self, count, *arguments):
        # PyTorch 2.6 makes communicators that do not block, with which its sends crash in libnccl.
        return run(["--cluster", "dgx-h100:1", "--ranks-per-host", str(count), "--nccl", "native"],
                   [str(PYTHON), *arguments], {"TORCH_NCCL_USE_COMM_NONBLOCKING": "0"})

    def test_every_collective_of_two_ranks(self):
        status, output = self.ranks(2, NCCL_OPS)
        self.assertEqual(status, 0, output)
        self.assertIn("rank 0: PASSED nccl_ops", output)
        self.assertIn("rank 1: PASSED nccl_ops", output)
        self.assertNotIn("not emulated", output)
        self.assertIn("x AllReduce of 2 ranks (Ring LL)", output)

    def test_four_ranks(self):
        status, output = self.ranks(4, NCCL_OPS, "all_reduce_operations")
        self.assertEqual(status, 0, output)
        self.assertEqual(len(re.findall(r"rank \d: PASSED nccl_ops", output)), 4, output)

    def test_ranks_that_do_not_agree(self):
        program = """
import os, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
dist.all_reduce(torch.zeros(8, device="cuda"))
dist.all_reduce(torch.zeros(8 + 8 * rank, device="cuda"))
torch.cuda.synchronize()
"""
        status, output = self.ranks(2, "-c", program)
        self.assertNotEqual(status, 0)
        self.assertRegex(output, r"NCCL: ranks of communicator \d+ of 2 ranks do not agree on collective 2:")
        self.assertIn("AllReduce of 16 float32", output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
