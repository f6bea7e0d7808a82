#!/usr/bin/env python3
"""Trains a GPT-2 (by default 124M, batch 12 x 1024, bf16) and prints how long each step takes,
by the host's clock and by CUDA events, as users' programs do.

usage: gpt2.py [--layers N] [--batch N] [--steps N]
"""

import argparse
import time

import torch
from torch import nn
from torch.nn import functional

HEADS, WIDTH, VOCABULARY, CONTEXT = 12, 768, 50304, 1024

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--batch", type=int, default=12)
parser.add_argument("--steps", type=int, default=6)
options = parser.parse_args()


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
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(options.layers)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(CONTEXT, device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


with torch.device("cuda"):
    model = Gpt()
    batch = torch.zeros(options.batch, CONTEXT, dtype=torch.long)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for step in range(options.steps):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start = time.perf_counter()
    begin.record()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = functional.cross_entropy(model(batch).view(-1, VOCABULARY), batch.view(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    end.record()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    print("step %d: %.3f ms (events %.3f ms), %.0f tokens/s"
          % (step, seconds * 1e3, begin.elapsed_time(end), batch.numel() / seconds), flush=True)
