#!/usr/bin/env python3
"""Trains a small GPT on random tokens with DistributedDataParallel.

    torchrun --standalone --nproc-per-node 2 train_ddp.py --steps 10
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

GIB = 2**30


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8, help="sequences per GPU and step")
    parser.add_argument("--seq", type=int, default=256, help="tokens per sequence")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--backend", default="gloo", help="torch.distributed backend: gloo or nccl")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class Block(nn.Module):
    """Causal self-attention and a feed-forward network, each behind a layer norm."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))

    def forward(self, x):
        batch, seq, hidden = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, seq, 3, self.heads, hidden // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attention = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).reshape(batch, seq, hidden))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocab, seq, layers, hidden, heads):
        super().__init__()
        self.token = nn.Embedding(vocab, hidden)
        self.position = nn.Embedding(seq, hidden)
        self.blocks = nn.Sequential(*(Block(hidden, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocab, bias=False)
        self.head.weight = self.token.weight
        self.apply(self._init)

    @staticmethod
    def _init(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token(tokens) + self.position(positions)
        return self.head(self.norm(self.blocks(x)))


def random_batches(args, rank):
    """Yields batches in pinned memory, different for each rank; each sequence has one token more to predict."""
    generator = torch.Generator().manual_seed(args.seed * 1000 + rank)
    while True:
        yield torch.randint(args.vocab, (args.batch, args.seq + 1), generator=generator).pin_memory()


def train_step(model, optimizer, tokens):
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def train(args, model, device, rank, world_size):
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    batches = random_batches(args, rank)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    tokens_per_step = args.batch * args.seq * world_size
    for step in range(1, args.steps + 1):
        start.record()
        loss = train_step(model, optimizer, next(batches).to(device, non_blocking=True))
        end.record()
        end.synchronize()
        if rank == 0:
            milliseconds = start.elapsed_time(end)
            print(
                f"step {step:4d}  loss {loss.item():8.4f}  {milliseconds:9.3f} ms"
                f"  {tokens_per_step / milliseconds * 1000:12,.0f} tokens/s"
                f"  peak memory {torch.cuda.max_memory_allocated(device) / GIB:6.3f} GiB",
                flush=True,
            )


def main():
    args = parse_args()
    dist.init_process_group(args.backend)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(args.seed)

    model = GPT(args.vocab, args.seq, args.layers, args.hidden, args.heads).to(device)
    if rank == 0:
        gpu = torch.cuda.get_device_properties(device)
        parameters = sum(p.numel() for p in model.parameters())
        print(f"{world_size} x {gpu.name}, {gpu.total_memory / GIB:.1f} GiB; PyTorch {torch.__version__}")
        print(f"GPT with {parameters / 1e6:.1f} million parameters, {args.backend} backend", flush=True)
    train(args, DistributedDataParallel(model, device_ids=[device.index]), device, rank, world_size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
