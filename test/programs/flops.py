#!/usr/bin/env python3
"""Prints the FLOPs of GPT-2 forwards and backwards as PyTorch counts them, and nothing else of
what it does has any.

usage: flops.py MODE  (bf16, fp32, tf32, fp16)
"""

import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

MODE = sys.argv[1]
torch.backends.cuda.matmul.allow_tf32 = MODE == "tf32"
HEADS, WIDTH, LENGTH, BATCH = 12, 768, 512, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.project(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


model = nn.Sequential(*[Block() for _ in range(3)]).cuda()
x = torch.zeros(BATCH, LENGTH, WIDTH, device="cuda")
dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(MODE)
with FlopCounterMode(display=False) as counter:
    with torch.autocast("cuda", dtype=dtype, enabled=dtype is not None):
        y = model(x)
    y.float().sum().backward()
torch.cuda.synchronize()
print(counter.get_total_flops())
