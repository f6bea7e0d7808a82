#!/usr/bin/env python3
"""What the rules make of launches is what PyTorch counts.

usage: flops_test.py PHANTORA_RUN FLOPS_PY RESNET50_PY GEMM_SWEEP_PY
"""

import collections
import json
import sys
import unittest

import kernel_trace

PHANTORA_RUN, FLOPS, RESNET50, GEMM_SWEEP = sys.argv[1:5]
GPUS = ("a100-sxm4-80gb", "h100-sxm5-80gb")


def flops(work, *families):
    return sum(event["flops"] for event in work if event.get("family") in families)


class FlopsTest(unittest.TestCase):
    def kernels(self, gpu, *program):
        printed, work, messages = kernel_trace.run(PHANTORA_RUN, gpu, *program)
        self.assertNotIn("contradicts its rule", messages)
        kernels = [event for event in work if event["cat"] == "kernel"]
        time = collections.Counter()
        for kernel in kernels:
            time[kernel["time"]] += kernel["dur"]
        known = time["measured"] + time["interpolated"] + time["modelled"]
        self.assertGreater(known, 0.95 * sum(time.values()))
        return json.loads(printed), kernels

    def test_gpt(self):
        for gpu in GPUS:
            for mode in ("bf16", "fp16", "fp32", "tf32"):
                with self.subTest(gpu=gpu, mode=mode):
                    counted, kernels = self.kernels(gpu, FLOPS, mode)
                    self.assertGreater(counted, 1e11)
                    self.assertEqual(flops(kernels, "gemm", "attention"), counted)

    def test_resnet50(self):
        # Of its first convolution, cuDNN fills up the three channels: of the gradient of the
        # weights to four, in 16 bits to eight, there forwards too. The rest is equal.
        for gpu in GPUS:
            for mode, channels, times in (("tf32", 4, 1), ("bf16", 8, 2)):
                with self.subTest(gpu=gpu, mode=mode):
                    counted, kernels = self.kernels(gpu, RESNET50, "--mode", mode)
                    more = counted["first_convolution"] * (channels - 3) / 3 * times
                    self.assertEqual(flops(kernels, "gemm", "convolution"),
                                     counted["flops"] + more)

    def test_products(self):
        for gpu in GPUS:
            with self.subTest(gpu=gpu):
                expected, kernels = self.kernels(gpu, GEMM_SWEEP)
                self.assertGreater(len(expected), 162)
                of = kernel_trace.by_operation(expected, kernels)
                self.assertEqual({name: flops(of[name], "gemm") for name in expected}, expected)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
