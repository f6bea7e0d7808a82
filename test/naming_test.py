#!/usr/bin/env python3
"""Every kernel has a name, wherever its code comes from.

usage: naming_test.py PHANTORA_RUN NAMING_PY GPT2_PY
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN, NAMING, GPT2 = sys.argv[1:4]
PYTHON = (pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
          / "venv/bin/python")


def kernels_of(gpu, *program):
    """Names of the kernels that a program launches, and what phantora-run says."""
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder, "trace.json")
        result = subprocess.run(
            [PHANTORA_RUN, "--gpu", gpu, "--host-time", "fixed", "--trace", trace, "--", PYTHON,
             *program], check=False, capture_output=True, text=True, timeout=400,
            env=dict(os.environ, TORCHINDUCTOR_CACHE_DIR=os.path.join(folder, "inductor"),
                     TRITON_CACHE_DIR=os.path.join(folder, "triton")))
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        events = json.loads(trace.read_text(encoding="utf-8"))
    return {event["name"] for event in events if event.get("cat") == "kernel"}, result.stderr


class NamingTest(unittest.TestCase):
    def check(self, gpu, program, wanted):
        names, messages = kernels_of(gpu, *program)
        nameless = [name for name in names if re.fullmatch(r"kernel [0-9a-f]{8}", name)]
        self.assertEqual(nameless, [])
        self.assertNotIn("kernel without a name", messages)
        for pattern in wanted:
            self.assertTrue(any(re.search(pattern, name) for name in names), (pattern, names))

    ANYWHERE = ["elementwise_kernel<.*CUDAFunctor_add", "compiled_by_nvrtc", "softmax|SoftMax",
                "triton_poi_fused_add_mul_relu_sin", "fprop|convolve"]

    def test_from_everywhere_on_hopper(self):
        self.check("h100-sxm5-80gb", [NAMING], [*self.ANYWHERE, "sm90_xmma_gemm_bf16|bf16_s16816gemm"])

    def test_from_everywhere_on_ampere(self):
        self.check("a100-sxm4-80gb", [NAMING], [*self.ANYWHERE, "bf16_s16816gemm"])

    def test_training(self):
        self.check("a100-sxm4-80gb", [GPT2, "--layers", "2", "--steps", "2"],
                   ["flash_fwd_kernel", "flash_bwd_dq_dk_dv", "FusedAdamMathFunctor",
                    "layer_norm_grad_input", "embedding_backward", "bf16_s16816gemm"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
