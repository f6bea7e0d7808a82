#!/usr/bin/env python3
"""Every kernel has a name, wherever its code comes from.

usage: naming_test.py PHANTORA_RUN NAMING_PY GPT2_PY
"""

import re
import sys
import unittest

import kernel_trace

PHANTORA_RUN, NAMING, GPT2 = sys.argv[1:4]


class NamingTest(unittest.TestCase):
    def check(self, gpu, program, wanted):
        _, work, messages = kernel_trace.run(PHANTORA_RUN, gpu, *program)
        names = {event["name"] for event in work if event["cat"] == "kernel"}
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
