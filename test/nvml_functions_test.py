#!/usr/bin/env python3
"""Every function of nvidia-ml-py is called, and answers what it should.

usage: nvml_functions_test.py PHANTORA_RUN PROGRAM TABLE

The table has, for an H100 and driver 550, what each function says (test/programs/nvml_functions.tsv): a value, or which error.
"""

import collections
import os
import pathlib
import subprocess
import sys
import unittest

PHANTORA_RUN, PROGRAM, TABLE = sys.argv[1:4]
PYTHON = pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora", "venv/bin/python")
# An error that says nothing: only of what is not emulated, and told.
MUTE = "NVML_ERROR_UNKNOWN"
MUTE_OF = {"nvmlDeviceGetConfComputeGpuCertificate", "nvmlDeviceGetVbiosVersion", "nvmlGpmQueryIfStreamingEnabled",
           "nvmlGpmSampleGet", "nvmlGpmSetStreamingEnabled"}


def outcomes(gpu, driver):
    words = [PHANTORA_RUN, "--no-status", "--gpus", "2", "--gpu", gpu, "--driver", driver, "--", PYTHON, PROGRAM]
    result = subprocess.run(words, text=True, capture_output=True, check=False, timeout=120)
    assert result.returncode == 0, result.stdout[-500:] + result.stderr
    return dict(line.split("\t")[:2] for line in result.stdout.splitlines() if line.startswith("nvml"))


class NvmlFunctionsTest(unittest.TestCase):
    def test_an_h100(self):
        wanted = dict(line.split("\t") for line in pathlib.Path(TABLE).read_text().splitlines())
        found = outcomes("h100-sxm5-80gb", "550.163.01")
        self.assertEqual({name: outcome for name, outcome in found.items() if wanted.get(name) != outcome}, {})
        self.assertEqual(set(wanted) - set(found), set())
        print(collections.Counter(found.values()))

    def test_others_say_why(self):
        for gpu, driver in (("a100-sxm4-80gb", "535.261.03"), ("a100-sxm4-80gb", "550.163.01"),
                            ("h200-sxm5-141gb", "555.58.02")):
            with self.subTest(gpu=gpu, driver=driver):
                found = outcomes(gpu, driver)
                self.assertLessEqual({name for name, outcome in found.items() if outcome == MUTE}, MUTE_OF)
                self.assertGreater(sum(outcome == "ok" for outcome in found.values()), 100)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
