#!/usr/bin/env python3
"""--execute gpu: one GPU computes for several ranks. Here an emulated one that computes stands for it.

usage: execute_gpu_test.py PHANTORA_RUN PHANTORA_PROFILE TRAIN_ON_GPU_PY
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

PHANTORA_RUN, PHANTORA_PROFILE, TRAIN = map(os.path.abspath, sys.argv[1:4])
PYTHON = (pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
          / "venv/bin/python")
RANKS, STEPS, MEMORY_GIB = 2, 3, 0.6
REAL = shlex.join([PHANTORA_RUN, "--no-status", "--host-time", "fixed", "--execute", "all", "--", PHANTORA_PROFILE,
                   "execute"])

FAULT = """
import torch
x = torch.ones(4, device="cuda")
class Beyond:  # a tensor that is larger than its memory
    __cuda_array_interface__ = {"data": (x.data_ptr(), False), "shape": (1 << 40,), "typestr": "<f4", "version": 2}
try:
    print((torch.as_tensor(Beyond(), device="cuda")[1 << 38:(1 << 38) + 4] + 1).sum().item())
except RuntimeError as error:
    print(error)
"""


def run(command):
    result = subprocess.run(list(map(str, command)), text=True, capture_output=True, timeout=900, check=False)
    return result.returncode, result.stdout, result.stderr


def losses(text):
    return [float(loss) for loss in re.findall(r"^(?:\[rank 0\] )?step \d+ loss ([\d.]+)$", text, re.MULTILINE)]


class ExecuteGpuTest(unittest.TestCase):
    def train(self, *options):
        status, out, err = run([PHANTORA_RUN, "--no-status", "--host-time", "fixed", "--cluster", "dgx-h100:1",
                                "--ranks-per-host", RANKS, "--execute", "gpu", "--execute-command", REAL, *options,
                                "--", PYTHON, TRAIN, "--steps", STEPS])
        self.assertEqual(status, 0, out + err)
        by_gpu = re.search(r"(\d+) kernels were executed .*?, (\d+) of them by the NVIDIA H100 .*? here "
                           r"\((\d+) MiB .*?, (\d+) times a context had to wait", err)
        self.assertTrue(by_gpu, err)
        self.assertNotIn("were not:", err)
        self.assertNotIn("mean nothing", err)
        return losses(out), *map(int, by_gpu.groups()), err

    def test_losses_of_ranks_are_those_of_the_processor(self):
        # What a rank has there fits once, not twice (512 MiB): they take turns.
        expected = losses(run([PYTHON, TRAIN, "--cpu", RANKS, "--steps", STEPS])[1])
        self.assertEqual(len(expected), STEPS)
        found, executed, by_gpu, most, turns, err = self.train("--execute-memory", MEMORY_GIB)
        self.assertLessEqual(most, 1024 * MEMORY_GIB)
        self.assertGreater(turns, RANKS)
        for ours, theirs in zip(found, expected, strict=True):
            self.assertAlmostEqual(ours, theirs, delta=1e-5 * theirs)
        self.assertGreater(by_gpu, 0.9 * executed, err)

    def test_a_fault_there_is_the_contexts_own(self):
        status, out, err = run([PHANTORA_RUN, "--no-status", "--host-time", "fixed", "--execute", "gpu", "--execute-command",
                                REAL, "--", PYTHON, "-c", FAULT])
        self.assertEqual(status, 0, out + err)
        self.assertIn("an illegal memory access was encountered", out)
        self.assertIn("is lost for one of the ranks' contexts: CUDA_ERROR_ILLEGAL_ADDRESS", err)

    def test_a_gpu_of_another_generation_is_refused(self):
        status, out, err = run([PHANTORA_RUN, "--no-status", "--gpu", "a100-sxm4-80gb", "--execute", "gpu",
                                "--execute-command", REAL, "--", "true"])
        self.assertNotEqual(status, 0, out + err)
        self.assertIn("the NVIDIA H100 80GB HBM3 here runs code for sm_90, the emulated GPU's is for sm_80", err)

    def test_who_cannot_have_a_gpu_is_told(self):
        status, out, err = run([PHANTORA_RUN, "--no-status", "--execute", "gpu", "--execute-command",
                                f"{PHANTORA_PROFILE} execute", "--", "true"])
        self.assertNotEqual(status, 0, out + err)
        self.assertIn("--execute gpu: ", err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
