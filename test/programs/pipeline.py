#!/usr/bin/env python3
"""A pipeline with a stage per rank: GPipe, 1F1B and interleaved 1F1B of torch.distributed.pipelining.

    torchrun --standalone --nproc-per-node 2 pipeline.py
"""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

HIDDEN, BATCH, MICROBATCHES = 512, 32, 8


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN))

    def forward(self, x):
        return self.layers(x)


def train(schedule, stages, rank, last, device):
    inputs = torch.randn(BATCH, HIDDEN).to(device)
    targets = torch.randn(BATCH, HIDDEN).to(device)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(3):
        start.record()
        losses = []
        if rank == last:
            schedule.step(*([inputs] if rank == 0 else []), target=targets, losses=losses)
            assert len(losses) == MICROBATCHES, len(losses)
        elif rank == 0:
            schedule.step(inputs)
        else:
            schedule.step()
        end.record()
        for stage in stages:
            for parameter in stage.submod.parameters():
                assert parameter.grad is not None
                parameter.grad = None
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    rank, world = dist.get_rank(), dist.get_world_size()
    for name, kind, per_rank in (("GPipe", ScheduleGPipe, 1), ("1F1B", Schedule1F1B, 1),
                                 ("interleaved 1F1B", ScheduleInterleaved1F1B, 2)):
        # Stages are told their shapes; otherwise they send them to each other as objects.
        example = torch.empty(BATCH // MICROBATCHES, HIDDEN, device="meta")
        stages = [PipelineStage(Stage().to(device), rank + world * i, world * per_rank, device, example, example)
                  for i in range(per_rank)]
        schedule = kind(stages[0] if per_rank == 1 else stages, MICROBATCHES, loss_fn=nn.functional.mse_loss)
        took = train(schedule, stages, rank, world - 1, device)
        if rank == 0:
            print(f"{name:16s} {world * per_rank} stages, {MICROBATCHES} microbatches: {took:.3f} ms")
    dist.destroy_process_group()
    print(f"rank {rank}: PASSED pipeline", flush=True)


if __name__ == "__main__":
    main()
