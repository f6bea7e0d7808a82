#!/usr/bin/env python3
"""Training steps of models as SuperBench runs them: Hugging Face's GPT-2 and BERT, eager, with attention of
single kernels, dropout, and AdamW; prints JSON: milliseconds of a step, the median from the third on.

usage: superbench_step.py MODEL float16|float32 [--steps N]

MODEL: gpt2-small, gpt2-large (batch 8 x 224), bert-base or bert-large (32 x 224). The shapes and kernels of
these models, not their code; one GPU, so that no gradients are exchanged.
"""

import argparse
import json
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

# Width, layers, heads, sequences per step.
SHAPES = {"gpt2-small": (768, 12, 12, 8), "gpt2-large": (1280, 36, 20, 8), "bert-base": (768, 12, 12, 32),
          "bert-large": (1024, 24, 16, 32)}
LENGTH, CLASSES, POSITIONS, DROPOUT = 224, 100, 1024, 0.1


class Conv1d(nn.Module):
    """Hugging Face's linear layer of GPT-2: the weight is not transposed."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(inputs, outputs)), nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], -1)


def new_gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def split(x, heads):
    return x.view(*x.shape[:2], heads, -1).permute(0, 2, 1, 3)


def merge(x):
    return x.permute(0, 2, 1, 3).contiguous().flatten(2)


class Gpt2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = Conv1d(width, 3 * width), Conv1d(width, width)
        self.up, self.down = Conv1d(width, 4 * width), Conv1d(4 * width, width)
        self.register_buffer("causal", torch.tril(torch.ones(POSITIONS, POSITIONS, dtype=torch.uint8)).view(
            1, 1, POSITIONS, POSITIONS))

    def forward(self, x):
        length = x.size(1)
        q, k, v = (split(part, self.heads) for part in self.qkv(self.norm_1(x)).split(x.size(-1), dim=2))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(v.size(-1))
        scores = torch.where(self.causal[:, :, :length, :length].bool(), scores, self.masked.to(scores.dtype))
        weights = functional.dropout(functional.softmax(scores, dim=-1), DROPOUT)
        x = functional.dropout(self.out(merge(torch.matmul(weights, v))), DROPOUT) + x
        return x + functional.dropout(self.down(new_gelu(self.up(self.norm_2(x)))), DROPOUT)


class BertBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out, self.up, self.down = (nn.Linear(width, width), nn.Linear(width, 4 * width),
                                        nn.Linear(4 * width, width))
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        q, k, v = (split(part(x), self.heads) for part in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1)) + self.mask
        weights = functional.dropout(functional.softmax(scores, dim=-1), DROPOUT)
        x = self.norm_1(functional.dropout(self.out(merge(torch.matmul(weights, v))), DROPOUT) + x)
        return self.norm_2(functional.dropout(self.down(functional.gelu(self.up(x))), DROPOUT) + x)


class Model(nn.Module):
    def __init__(self, name):
        super().__init__()
        width, layers, heads, _ = SHAPES[name]
        self.gpt = name.startswith("gpt2")
        self.words = nn.Embedding(50257 if self.gpt else 30522, width)
        self.positions = nn.Embedding(POSITIONS if self.gpt else 512, width)
        self.types = None if self.gpt else nn.Embedding(2, width)
        self.blocks = nn.ModuleList((Gpt2Block if self.gpt else BertBlock)(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.pool = None if self.gpt else nn.Linear(width, width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, tokens):
        x = self.words(tokens) + self.positions(torch.arange(LENGTH, device=tokens.device))
        if not self.gpt:
            x = self.norm(x + self.types(torch.zeros_like(tokens)))
        x = functional.dropout(x, DROPOUT)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))[:, -1] if self.gpt else self.head(torch.tanh(self.pool(x[:, 0])))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=SHAPES)
    parser.add_argument("precision", choices=["float16", "float32"])
    parser.add_argument("--steps", type=int, default=7)
    options = parser.parse_args()
    # What float32 means there.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    dtype = getattr(torch, options.precision)
    with torch.device("cuda"):
        model = Model(options.model).to(dtype)
        Gpt2Block.masked = torch.tensor(-1e4)
        batch = SHAPES[options.model][3]
        BertBlock.mask = torch.zeros(batch, 1, 1, LENGTH, dtype=dtype)
        target = torch.zeros(batch, dtype=torch.long)
    # A loop over the parameters, as torch.optim.AdamW was then.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=False)
    sample = torch.zeros(batch, LENGTH, dtype=torch.long).pin_memory()
    milliseconds = []
    for _ in range(options.steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        tokens = sample.cuda()
        optimizer.zero_grad(set_to_none=False)
        functional.cross_entropy(model(tokens), target).backward()
        optimizer.step()
        torch.cuda.synchronize()
        milliseconds.append(1e3 * (time.perf_counter() - start))
    print(json.dumps({"ms": statistics.median(milliseconds[2:])}))


if __name__ == "__main__":
    main()
