#!/usr/bin/env python3
"""Trains a model of MPT-7B's shape with FSDP1 as llm-foundry does: FULL_SHARD, parameters on the meta device until
they are sharded, bfloat16 with reductions in --reduce, no activation checkpointing, flash attention.

    phantora-run --cluster dgx-h100:1 --record-step step.json -- python mpt_fsdp.py
    phantora-replay step.json --cluster dgx-h100:1,dgx-h100:16,dgx-h100:32,dgx-h100:64
"""

import argparse
import functools
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp.wrap import lambda_auto_wrap_policy

GIB = 2**30


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--dim", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--vocab", type=int, default=50368)
    parser.add_argument("--batch", type=int, default=6, help="sequences per GPU and step")
    parser.add_argument("--seq", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--reduce", choices=["bfloat16", "float32"], default="bfloat16")
    return parser.parse_args()


class Block(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.heads = args.heads
        self.norm_1 = nn.LayerNorm(args.dim, bias=False)
        self.wqkv = nn.Linear(args.dim, 3 * args.dim, bias=False)
        self.out = nn.Linear(args.dim, args.dim, bias=False)
        self.norm_2 = nn.LayerNorm(args.dim, bias=False)
        self.up = nn.Linear(args.dim, 4 * args.dim, bias=False)
        self.down = nn.Linear(4 * args.dim, args.dim, bias=False)

    def forward(self, x):
        batch, seq, dim = x.shape
        qkv = self.wqkv(self.norm_1(x)).view(batch, seq, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*qkv, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, seq, dim))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Mpt(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.wte = nn.Embedding(args.vocab, args.dim)
        self.wpe = nn.Embedding(args.seq, args.dim)
        self.blocks = nn.ModuleList(Block(args) for _ in range(args.layers))
        self.norm_f = nn.LayerNorm(args.dim, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm_f(x), self.wte.weight)  # tied


def main():
    args = parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    with torch.device("meta"):
        model = Mpt(args)
    parameters = sum(p.numel() for p in model.parameters())
    model = FullyShardedDataParallel(
        model,
        sharding_strategy=ShardingStrategy.FULL_SHARD,
        auto_wrap_policy=functools.partial(lambda_auto_wrap_policy, lambda_fn=lambda module: isinstance(module, Block)),
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=getattr(torch, args.reduce),
                                       buffer_dtype=torch.bfloat16),
        param_init_fn=lambda module: module.to_empty(device=device, recurse=False),
        device_id=device,
        limit_all_gathers=True,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), fused=True)
    if rank == 0:
        print(f"{parameters / 1e9:.2f} billion parameters on {world} x {torch.cuda.get_device_name()}", flush=True)

    for step in range(1, args.steps + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        tokens = torch.randint(args.vocab, (args.batch, args.seq)).to(device)
        logits = model(tokens)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        del logits
        loss.backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        if rank == 0:
            print(f"step {step}  {seconds:8.3f} s  {args.batch * args.seq / seconds:8.0f} tokens/s/GPU"
                  f"  {torch.cuda.max_memory_reserved() / GIB:6.2f} GiB reserved", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
