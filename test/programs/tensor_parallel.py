#!/usr/bin/env python3
"""A feed-forward network split over a row of GPUs, and replicated over the rows: a mesh of dp x tp.

    torchrun --standalone --nproc-per-node 4 tensor_parallel.py
"""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, SequenceParallel, loss_parallel,
                                               PrepareModuleInput, parallelize_module)

HIDDEN, VOCAB = 256, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(self.norm(x))))


def redistributed(mesh):
    """Tensors from the host, laid out over the mesh and gathered again."""
    whole = torch.arange(64.0).reshape(8, 8)
    tensor = distribute_tensor(whole, mesh, [Shard(0), Shard(0)])
    row, column = mesh.get_coordinate()
    part = whole.chunk(mesh.size(0))[row]
    assert torch.equal(tensor.to_local().cpu(), part.chunk(mesh.size(1))[column])
    assert torch.equal(tensor.full_tensor().cpu(), whole)
    rows = tensor.redistribute(placements=[Shard(0), Replicate()])
    assert torch.equal(rows.to_local().cpu(), part)
    uneven = distribute_tensor(torch.arange(7), mesh["tp"], [Shard(0)])
    assert torch.equal(uneven.full_tensor().cpu(), torch.arange(7))


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cuda", (world // 2, 2), mesh_dim_names=("dp", "tp"))
    redistributed(mesh)

    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block()).to(device)
    up = model[0].up.weight.detach().cpu()
    for block in model:
        parallelize_module(block, mesh["tp"], {
            "norm": SequenceParallel(),
            "up": ColwiseParallel(input_layouts=Shard(1)),
            "down": RowwiseParallel(output_layouts=Shard(1)),
        })
    parallelize_module(model, mesh["tp"], {"0": PrepareModuleInput(input_layouts=Replicate(),
                                                                   desired_input_layouts=Shard(1))})
    weight = model[0].up.weight
    assert isinstance(weight, DTensor)
    assert torch.equal(weight.to_local().cpu(), up.chunk(2)[mesh["tp"].get_local_rank()])
    assert torch.equal(weight.full_tensor().cpu(), up)

    head = parallelize_module(nn.Linear(HIDDEN, VOCAB).to(device), mesh["tp"],
                              ColwiseParallel(input_layouts=Shard(1), use_local_output=False))
    parameters = [*model.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(3):
        start.record()
        logits = head(model(torch.randn(4, 32, HIDDEN, device=device)))
        with loss_parallel():
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), torch.randint(VOCAB, (128,), device=device))
            loss.backward()
        for parameter in parameters:
            dist.all_reduce(parameter.grad.to_local(), dist.ReduceOp.AVG, group=mesh.get_group("dp"))
        optimizer.step()
        optimizer.zero_grad()
        end.record()
    end.synchronize()
    dist.destroy_process_group()
    if rank == 0:
        print(f"a step on {world // 2} x 2 GPUs takes {start.elapsed_time(end):.3f} ms")
        print("PASSED tensor_parallel", flush=True)


if __name__ == "__main__":
    main()
