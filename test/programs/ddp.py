#!/usr/bin/env python3
"""DistributedDataParallel: buckets that overlap the backward pass, no_sync and hooks.

    torchrun --standalone --nproc-per-node 2 ddp.py
"""

import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

STEPS = 6


def model():
    layers = []
    for _ in range(8):
        layers += [nn.Linear(1024, 1024), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(1024, 16))


def timed(steps, step):
    """Milliseconds of the last steps, by CUDA events and by the host's clock."""
    for _ in range(2):
        step()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    before = time.perf_counter()
    start.record()
    for _ in range(steps):
        step()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / steps, (time.perf_counter() - before) * 1000 / steps


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()

    # Ranks start with different parameters; the constructor makes them those of rank 0. One
    # parameter per bucket is sent as it is, and so has rank 0's values even where kernels do not run.
    torch.manual_seed(rank)
    single = nn.Linear(64, 64, bias=False).to(device)
    DistributedDataParallel(single, device_ids=[device.index])
    expected = torch.manual_seed(0) and nn.Linear(64, 64, bias=False).weight
    assert torch.equal(single.weight.cpu(), expected), (single.weight, expected)

    ddp = DistributedDataParallel(model().to(device), device_ids=[device.index], bucket_cap_mb=9,
                                  gradient_as_bucket_view=True)
    buckets = []

    def counting(state, bucket):
        buckets.append(bucket.buffer().numel())
        return default_hooks.allreduce_hook(state, bucket)

    ddp.register_comm_hook(dist.group.WORLD, counting)
    optimizer = torch.optim.AdamW(ddp.parameters())
    inputs = torch.randn(4096, 1024).pin_memory()
    targets = torch.randint(16, (4096,)).pin_memory()

    def step():
        x, y = inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)
        nn.functional.cross_entropy(ddp(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    def step_alone():
        with ddp.no_sync():
            step()

    with_exchange = timed(STEPS, step)
    # The first step has buckets of another order, which are then rebuilt.
    parameters = sum(p.numel() for p in ddp.parameters())
    assert sum(buckets) == parameters * (STEPS + 2), (sum(buckets), parameters)
    assert len(buckets) == 1 + 3 * (STEPS + 1), buckets
    buckets.clear()
    alone = timed(STEPS, step_alone)
    assert not buckets
    assert with_exchange[0] > alone[0], (with_exchange, alone)

    # All ranks have the same parameters, whatever they are.
    for parameter in ddp.parameters():
        everyones = [torch.empty_like(parameter) for _ in range(world)]
        dist.all_gather(everyones, parameter.detach())
        assert all(torch.equal(one.cpu(), parameter.detach().cpu()) for one in everyones)

    # Gradients of half the size.
    compressed = DistributedDataParallel(model().to(device), device_ids=[device.index], static_graph=True)
    compressed.register_comm_hook(None, default_hooks.bf16_compress_hook)
    ddp, optimizer = compressed, torch.optim.SGD(compressed.parameters(), 0.1)
    half = timed(STEPS, step)

    dist.destroy_process_group()
    if rank == 0:
        print(f"{parameters / 1e6:.1f} million parameters, {len(everyones)} ranks")
        for name, times in (("exchanging fp32", with_exchange), ("exchanging bf16", half), ("no_sync", alone)):
            print(f"{name:16s} {times[0]:8.3f} ms per step on the GPU {times[1]:8.3f} ms on the host")
        print("PASSED ddp", flush=True)


if __name__ == "__main__":
    main()
