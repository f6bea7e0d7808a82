#!/usr/bin/env python3
"""Launches a kernel and waits for it, 2,000 times; says when it begins and ends."""

import torch

x = torch.zeros(1, device="cuda")
for _ in range(50):
    x.add_(1)
torch.cuda.synchronize()
print("begins", flush=True)
for _ in range(2000):
    x.add_(1)
    torch.cuda.synchronize()
print("ends", flush=True)
