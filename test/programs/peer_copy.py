#!/usr/bin/env python3
"""Times copies between two GPUs; prints JSON: GB/s one way and both ways at once.

usage: peer_copy.py
"""

import json
import time

import torch

BYTES, REPEATS = 1 << 28, 20
streams = [torch.cuda.Stream(device) for device in (0, 1)]
tensors = [[torch.empty(BYTES, dtype=torch.uint8, device=f"cuda:{device}") for device in (0, 1)] for _ in range(2)]


def copy(way):
    here, there = tensors[way][way], tensors[way][1 - way]
    with torch.cuda.stream(streams[way]):
        there.copy_(here, non_blocking=True)


def gb_per_s(ways):
    for repeats in (1, REPEATS):
        for device in (0, 1):
            torch.cuda.synchronize(device)
        begin = time.perf_counter()
        for _ in range(repeats):
            for way in ways:
                copy(way)
        for device in (0, 1):
            torch.cuda.synchronize(device)
    return len(ways) * REPEATS * BYTES / (time.perf_counter() - begin) / 1e9


print(json.dumps({"one way": gb_per_s([0]), "both ways": gb_per_s([0, 1])}))
