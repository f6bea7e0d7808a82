#!/usr/bin/env python3
"""Trains a model of Llama 3 8B's shape with FSDP2, as torchtitan does: parameters on the meta device
until they are sharded, bfloat16 with fp32 reductions, selective activation checkpointing, fused AdamW.

    phantora-run --cluster grand-teton-h100:1 -- python llama_fsdp.py

or of Llama 3 70B's shape, which eight GPUs have room for with parameters of 16 bits:

    phantora-run --cluster dgx-h200:1 -- python llama_fsdp.py --parameters bfloat16 \
        --layers 80 --dim 8192 --heads 64 --ffn 28672 --batch 1 --seq 4096

prints tokens per second and GPU, and the memory that PyTorch has reserved.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

GIB = 2**30


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--dim", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--ffn", type=int, default=14336)
    parser.add_argument("--vocab", type=int, default=128256)
    parser.add_argument("--batch", type=int, default=2, help="sequences per GPU and step")
    parser.add_argument("--seq", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--parameters", choices=("float32", "bfloat16"), default="float32",
                        help="type of the sharded parameters and of what AdamW keeps")
    return parser.parse_args()


def rotary(x, table):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * table[None, : x.shape[1], None]).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.head_dim = args.dim // args.heads
        self.wq = nn.Linear(args.dim, args.heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, args.kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, args.kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(args.heads * self.head_dim, args.dim, bias=False)
        self.repeat = args.heads // args.kv_heads

    def forward(self, x, table):
        batch, seq, _ = x.shape
        q, k, v = (w(x).view(batch, seq, -1, self.head_dim) for w in (self.wq, self.wk, self.wv))
        q, k = rotary(q, table), rotary(k, table)
        k, v = (t.repeat_interleave(self.repeat, dim=2) for t in (k, v))
        out = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        return self.wo(out.transpose(1, 2).reshape(batch, seq, -1))


class Block(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.attention_norm = nn.RMSNorm(args.dim, eps=1e-5)
        self.attention = Attention(args)
        self.ffn_norm = nn.RMSNorm(args.dim, eps=1e-5)
        self.w1 = nn.Linear(args.dim, args.ffn, bias=False)
        self.w2 = nn.Linear(args.ffn, args.dim, bias=False)
        self.w3 = nn.Linear(args.dim, args.ffn, bias=False)

    def forward(self, x, table):
        x = x + self.attention(self.attention_norm(x), table)
        y = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.embedding = nn.Embedding(args.vocab, args.dim)
        self.layers = nn.ModuleList(Block(args) for _ in range(args.layers))
        self.norm = nn.RMSNorm(args.dim, eps=1e-5)
        self.output = nn.Linear(args.dim, args.vocab, bias=False)
        self.register_buffer("table", torch.zeros(args.seq, args.dim // args.heads // 2, dtype=torch.complex64),
                             persistent=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.table)
        return self.output(self.norm(x))


def save_policy():
    """torchtitan's selective checkpointing by operation: keeps attention, reductions and every second matrix product."""
    saved = {
        torch.ops.aten._scaled_dot_product_efficient_attention.default,
        torch.ops.aten._scaled_dot_product_flash_attention.default,
        torch.ops._c10d_functional.reduce_scatter_tensor.default,
    }
    products = {False: 0, True: 0}

    def policy(context, op, *args, **kwargs):
        if op == torch.ops.aten.mm.default:
            products[context.is_recompute] += 1
            keep = products[context.is_recompute] % 2 == 1
        else:
            keep = op in saved
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def sharded(model, mesh):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for i, layer in enumerate(model.layers):
        layer = checkpoint_wrapper(layer, context_fn=save_policy, preserve_rng_state=False)
        model.layers[i] = layer
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=i < len(model.layers) - 1)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model


def main():
    args = parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cuda", (world,))
    with torch.device("meta"):
        model = Llama(args).to(getattr(torch, args.parameters))
    parameters = sum(p.numel() for p in model.parameters())
    sharded(model, mesh)
    model.to_empty(device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    if rank == 0:
        print(f"{parameters / 1e9:.2f} billion parameters on {world} x {torch.cuda.get_device_name()}", flush=True)

    for step in range(1, args.steps + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        tokens = torch.randint(args.vocab, (args.batch, args.seq + 1)).to(device)
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        del logits
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
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
