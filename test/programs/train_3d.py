#!/usr/bin/env python3
"""Trains a decoder with tensor, data and pipeline parallelism at once, each rank one GPU.

Ranks are laid out as Megatron does, tensor parallel fastest: rank = (pp * DP + dp) * TP + tp. Products are split as
there, too; pipelines are PyTorch's own (1F1B, or interleaved with several stages a rank). Experts (`--experts`) are
spread over `--ep` ranks of each data-parallel group, with an all-to-all before and after them; every expert gets as
many tokens. Prints the time of each step and the most memory that PyTorch had.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B


class Copy(torch.autograd.Function):
    """The same input for all ranks of a group, whose gradients are added up (Megatron's f)."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class Sum(torch.autograd.Function):
    """The sum of what all ranks of a group have; its gradient is theirs (Megatron's g)."""

    @staticmethod
    def forward(ctx, x, group):
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Exchange(torch.autograd.Function):
    """Equal parts to each rank of a group; backward the other way round."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x.contiguous(), group=group)
        return out

    @staticmethod
    def backward(ctx, gradient):
        out = torch.empty_like(gradient)
        dist.all_to_all_single(out, gradient.contiguous(), group=ctx.group)
        return out, None


class Mlp(nn.Module):
    """A rank's part of one that is split over `group`."""

    def __init__(self, dim, group):
        super().__init__()
        self.group, part = group, 4 * dim // group.size()
        self.up, self.down = nn.Linear(dim, part, bias=False), nn.Linear(part, dim, bias=False)

    def forward(self, x):
        return Sum.apply(self.down(nn.functional.gelu(self.up(Copy.apply(x, self.group)))), self.group)


class Experts(nn.Module):
    """One expert a rank of `group`."""

    def __init__(self, dim, group):
        super().__init__()
        self.group = group
        self.up, self.down = nn.Linear(dim, 4 * dim, bias=False), nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x):
        shape = x.shape
        mine = Exchange.apply(x.reshape(-1, shape[-1]), self.group)
        return Exchange.apply(self.down(nn.functional.gelu(self.up(mine))), self.group).view(shape)


class Block(nn.Module):
    def __init__(self, dim, heads, tp, ep):
        super().__init__()
        self.group, part = tp, dim // tp.size()
        self.width = dim // heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * part, bias=False)
        self.o = nn.Linear(part, dim, bias=False)
        if ep is not None:
            self.experts = Experts(dim, ep)
        else:
            self.mlp = Mlp(dim, tp)

    def forward(self, x):
        batch, length, _ = x.shape
        qkv = self.qkv(Copy.apply(self.norm1(x), self.group))
        q, k, v = (part.view(batch, length, -1, self.width).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + Sum.apply(self.o(y.transpose(1, 2).reshape(batch, length, -1)), self.group)
        return x + (self.experts if hasattr(self, "experts") else self.mlp)(self.norm2(x))


class Part(nn.Module):
    """Some layers of the model; the first has the embedding, the last the head."""

    def __init__(self, options, index, parts, tp, ep):
        super().__init__()
        self.embed = nn.Embedding(options.vocab, options.dim) if index == 0 else None
        self.layers = nn.ModuleList(
            Block(options.dim, options.heads, tp, ep) for _ in range(options.layers // parts))
        self.head = nn.Linear(options.dim, options.vocab, bias=False) if index == parts - 1 else None

    def forward(self, x):
        if self.embed is not None:
            x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return x if self.head is None else self.head(x)


def loss_of(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def reduce_gradients(module, group):
    """One all-reduce of all gradients but experts', which have different data on each rank already."""
    gradients = [p.grad for name, p in module.named_parameters() if "experts" not in name]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat, op=dist.ReduceOp.AVG, group=group)
    for gradient, part in zip(gradients, flat.split([gradient.numel() for gradient in gradients])):
        gradient.copy_(part.view_as(gradient))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("tp", 2), ("pp", 2), ("ep", 1), ("stages", 1), ("layers", 4), ("dim", 2048), ("heads", 16),
                        ("vocab", 32000), ("seq", 1024), ("batch", 1), ("micro-batches", 4), ("steps", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--gpipe", action="store_true", help="all forward first, then all backward")
    options = parser.parse_args()

    world = int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    # Without its device: PyTorch 2.6 would split the world's communicator into groups of one name, whose messages meet.
    dist.init_process_group("nccl")
    dp = world // options.tp // options.pp
    mesh = init_device_mesh("cuda", (options.pp, dp // options.ep, options.ep, options.tp),
                            mesh_dim_names=("pp", "edp", "ep", "tp"))
    tp, ep, pp = (mesh[name].get_group() for name in ("tp", "ep", "pp"))
    replicas = mesh["edp", "ep"]._flatten("dp").get_group() if options.ep > 1 else mesh["edp"].get_group()
    torch.manual_seed(7)
    parts = options.pp * options.stages
    stages, modules = [], []
    hidden = torch.empty((options.batch, options.seq, options.dim), dtype=torch.bfloat16, device="meta")
    ids = torch.empty((options.batch, options.seq), dtype=torch.long, device="meta")
    logits = torch.empty((options.batch, options.seq, options.vocab), dtype=torch.bfloat16, device="meta")
    for index in range(pp.rank(), parts, options.pp):
        with device:
            module = Part(options, index, parts, tp, ep if options.ep > 1 else None).bfloat16()
        modules.append(module)
        if options.pp > 1:
            stages.append(PipelineStage(module, index, parts, device, group=pp,
                                        input_args=ids if index == 0 else hidden,
                                        output_args=logits if index == parts - 1 else hidden))
    optimizers = [torch.optim.AdamW(module.parameters(), lr=1e-4, fused=True) for module in modules]
    schedule = None
    if options.pp > 1 and options.stages > 1:
        schedule = ScheduleInterleaved1F1B(stages, options.micro_batches, loss_fn=loss_of)
    elif options.pp > 1:
        kind = ScheduleGPipe if options.gpipe else Schedule1F1B
        schedule = kind(stages[0], options.micro_batches, loss_fn=loss_of)

    tokens = torch.zeros((options.batch * options.micro_batches, options.seq), dtype=torch.long, device=device)
    begin = time.perf_counter()
    for step in range(options.steps):
        for module in modules:
            module.zero_grad(set_to_none=True)
        if schedule is None:
            for batch in tokens.split(options.batch):
                loss_of(modules[0](batch), batch).backward()
        else:
            first, last = pp.rank() == 0, pp.rank() == options.pp - 1
            schedule.step(*([tokens] if first else []), **({"target": tokens} if last else {}))
        for module, optimizer in zip(modules, optimizers):
            reduce_gradients(module, replicas)
            optimizer.step()
        torch.cuda.synchronize()
        now = time.perf_counter()
        if dist.get_rank() == 0:
            print(f"step {step + 1} {1e3 * (now - begin):.3f} ms", flush=True)
        begin = now
    print(f"rank {dist.get_rank()} memory {torch.cuda.max_memory_allocated()} bytes", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
