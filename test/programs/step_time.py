#!/usr/bin/env python3
"""Times training steps by the host's clock and by CUDA events, as users' programs do.

Prints one JSON object: milliseconds of each step by either clock.
"""

import json
import time

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(*[
    torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512),
                        torch.nn.LayerNorm(512)) for _ in range(4)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
batch = torch.randn(2048, 512, device="cuda")
times = {"perf_counter": [], "events": []}
for _ in range(6):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start = time.perf_counter()
    begin.record()
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    end.record()
    torch.cuda.synchronize()
    times["perf_counter"].append((time.perf_counter() - start) * 1e3)
    times["events"].append(begin.elapsed_time(end))
print(json.dumps(times))
