#!/usr/bin/env python3
"""Launches tiny kernels back to back from PyTorch; prints JSON: microseconds of one.

usage: tiny_kernels.py
"""

import json
import time

import torch

LAUNCHES = 5000
one = torch.zeros(1, device="cuda")
for _ in range(2):  # the second is warm
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(LAUNCHES):
        one.add_(1)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
print(json.dumps({"us": 1e6 * seconds / LAUNCHES}))
