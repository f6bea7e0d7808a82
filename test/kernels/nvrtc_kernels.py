#!/usr/bin/env python3
"""What kernels compiled by NVRTC compute on an emulated GPU, compared with this machine's processor.

    nvrtc_kernels.py [--gpu a100-sxm4-80gb,h100-sxm5-80gb] [--only REGEX] [--quiet]

Each case is a process of its own below one phantora-run; a case whose kernels were not all executed is
REFUSED, with the reason that phantora-run gives.
"""

import importlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402
from gpu import Gpu  # noqa: E402

for module in ("integer", "floats", "halves", "warps", "control", "memory", "tensor", "warpgroup", "faults"):
    if os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"cases_{module}.py")):
        importlib.import_module(f"cases_{module}")

if __name__ == "__main__":
    harness.main(os.path.abspath(__file__), Gpu)
