#!/usr/bin/env python3
"""A GPT that ranks train with data parallelism, each on its own text, as torchrun or phantora-run starts them, or, with
--cpu, one process for all of them on the processor: rank 0 prints the loss of all ranks at each step.

usage: train_on_gpu.py [--steps N] [--width N] [--layers N] [--rate R] [--cpu RANKS]
"""

import argparse
import inspect
import os

import torch
from torch import distributed, nn
from torch.nn import functional as F

LENGTH, WORDS, BATCH = 64, 96, 2


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        mixed = F.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class Gpt(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.tokens, self.places = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(layers)))
        self.head = nn.Linear(width, WORDS)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.blocks(self.tokens(tokens) + self.places(places))).flatten(0, 1)


def batch_of(text, rank, step):
    """BATCH pieces of the text, and what follows each character."""
    random = torch.Generator().manual_seed(1000 * step + rank)
    begins = torch.randint(0, len(text) - LENGTH - 1, (BATCH,), generator=random)
    pieces = torch.stack([text[begin:begin + LENGTH + 1] for begin in begins])
    return pieces[:, :-1], pieces[:, 1:].flatten()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rate", type=float, default=1e-3, help="of learning")
    parser.add_argument("--cpu", type=int, default=0, metavar="RANKS", help="on the processor, in one process")
    options = parser.parse_args()
    text = torch.tensor([ord(c) % WORDS for c in inspect.getsource(argparse)])
    torch.manual_seed(1)
    model = Gpt(options.width, options.layers)
    if options.cpu:
        rank, ranks, device, wrapped = 0, options.cpu, "cpu", model
        mine = range(ranks)
    else:
        distributed.init_process_group("nccl")
        rank, ranks = distributed.get_rank(), distributed.get_world_size()
        device = f"cuda:{int(os.environ['LOCAL_RANK'])}"
        torch.cuda.set_device(device)
        wrapped = nn.parallel.DistributedDataParallel(model.to(device))
        mine = [rank]
    optimizer = torch.optim.AdamW(model.parameters(), options.rate)
    for step in range(options.steps):
        optimizer.zero_grad()
        total = torch.zeros((), device=device)
        for part in mine:
            inputs, targets = (t.to(device) for t in batch_of(text, part, step))
            loss = F.cross_entropy(wrapped(inputs), targets)
            (loss / len(mine)).backward()
            total += loss.detach() / ranks
        if not options.cpu:
            distributed.all_reduce(total)
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {total.item():.7f}", flush=True)
    if not options.cpu:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
