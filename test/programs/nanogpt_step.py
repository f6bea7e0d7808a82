#!/usr/bin/env python3
"""Training steps of GPT-2 124M as nanoGPT ran them at the end of 2022: bfloat16 autocast, attention of single
kernels, dropout 0.1, AdamW; prints JSON: milliseconds of a step, the median from the third on.

usage: nanogpt_step.py [--batch N] [--steps N]

Its shape and kernels, not its code.
"""

import argparse
import json
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

LAYERS, HEADS, WIDTH, VOCABULARY, LENGTH, DROPOUT = 12, 12, 768, 50257, 1024, 0.1


def new_gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("causal", torch.tril(torch.ones(LENGTH, LENGTH)).view(1, 1, LENGTH, LENGTH))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.norm_1(x)).split(width, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.causal[:, :, :length, :length] == 0, float("-inf"))
        weights = functional.dropout(functional.softmax(scores, dim=-1), DROPOUT)
        mixed = (weights @ v).transpose(1, 2).contiguous().view(batch, length, width)
        x = x + functional.dropout(self.out(mixed), DROPOUT)
        return x + functional.dropout(self.down(new_gelu(self.up(self.norm_2(x)))), DROPOUT)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens) + self.positions(torch.arange(LENGTH, device=tokens.device)[None])
        return self.head(self.norm(self.blocks(functional.dropout(x, DROPOUT))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=7)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    with torch.device("cuda"):
        model = Gpt()
        tokens = torch.zeros(options.batch, LENGTH, dtype=torch.long)
    # A loop over the parameters, as torch.optim.AdamW was then.
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.1, foreach=False)
    milliseconds = []
    for _ in range(options.steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens)
            loss = functional.cross_entropy(logits.view(-1, VOCABULARY), tokens.view(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch.cuda.synchronize()
        milliseconds.append(1e3 * (time.perf_counter() - start))
    print(json.dumps({"ms": statistics.median(milliseconds[2:])}))


if __name__ == "__main__":
    main()
