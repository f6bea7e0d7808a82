#!/usr/bin/env python3
"""A mixture of experts with experts on every rank: tokens go to their experts and back by all-to-all.

    torchrun --standalone --nproc-per-node 4 expert_parallel.py

The routing is made on the host, so that it is the same whether or not the GPU computes.
"""

import os

import torch
import torch.distributed as dist
import torch.nn as nn

HIDDEN, TOKENS, EXPERTS_PER_RANK = 256, 512, 2


class Exchange(torch.autograd.Function):
    """Rows to other ranks; backwards, their gradients return."""

    @staticmethod
    def forward(context, rows, received, sent):
        context.sizes = received, sent
        output = rows.new_empty(sum(received), rows.shape[1])
        dist.all_to_all_single(output, rows.contiguous(), received, sent)
        return output

    @staticmethod
    def backward(context, gradient):
        received, sent = context.sizes
        output = gradient.new_empty(sum(sent), gradient.shape[1])
        dist.all_to_all_single(output, gradient.contiguous(), sent, received)
        return output, None, None


class MixtureOfExperts(nn.Module):
    def __init__(self, world):
        super().__init__()
        self.world = world
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(HIDDEN, 4 * HIDDEN), nn.SiLU(), nn.Linear(4 * HIDDEN, HIDDEN))
            for _ in range(EXPERTS_PER_RANK))

    def forward(self, tokens, expert_of_token):
        order = expert_of_token.argsort(stable=True)
        counts = expert_of_token.bincount(minlength=self.world * EXPERTS_PER_RANK)
        # How many tokens each rank has for each of my experts.
        theirs = torch.empty_like(counts, device=tokens.device)
        dist.all_to_all_single(theirs, counts.to(tokens.device))
        theirs = theirs.cpu().view(self.world, EXPERTS_PER_RANK)
        sent, received = counts.view(self.world, -1).sum(1).tolist(), theirs.sum(1).tolist()

        rows = Exchange.apply(tokens[order.to(tokens.device)], received, sent)
        pieces = list(rows.split(theirs.flatten().tolist()))
        for i, expert in enumerate(self.experts):
            mine = range(i, len(pieces), EXPERTS_PER_RANK)
            outputs = expert(torch.cat([pieces[j] for j in mine])).split([len(pieces[j]) for j in mine])
            for j, output in zip(mine, outputs):
                pieces[j] = output
        returned = Exchange.apply(torch.cat(pieces), sent, received)
        return returned[order.argsort().to(tokens.device)]


def check_exchange(rank, world, device):
    """Rows that say whence they come and whither they go."""
    sent = [rank + r + 1 for r in range(world)]
    rows = torch.tensor([[rank, r] for r in range(world) for _ in range(sent[r])], dtype=torch.float32)
    received = [r + rank + 1 for r in range(world)]
    got = Exchange.apply(rows.to(device), received, sent)
    expected = [[r, rank] for r in range(world) for _ in range(received[r])]
    assert got.cpu().tolist() == expected, (rank, got)
    assert torch.equal(Exchange.apply(got, sent, received).cpu(), rows)


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    rank, world = dist.get_rank(), dist.get_world_size()
    check_exchange(rank, world, device)
    model = MixtureOfExperts(world).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    generator = torch.Generator().manual_seed(rank)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(4):
        expert_of_token = torch.randint(world * EXPERTS_PER_RANK, (TOKENS,), generator=generator)
        tokens = torch.randn(TOKENS, HIDDEN, generator=generator).to(device).requires_grad_()
        start.record()
        output = model(tokens, expert_of_token)
        assert output.shape == tokens.shape
        output.sum().backward()
        assert tokens.grad.shape == tokens.shape
        optimizer.step()
        optimizer.zero_grad()
        end.record()
    end.synchronize()
    dist.destroy_process_group()
    if rank == 0:
        print(f"{world * EXPERTS_PER_RANK} experts on {world} ranks: {start.elapsed_time(end):.3f} ms per step")
    print(f"rank {rank}: PASSED expert_parallel", flush=True)


if __name__ == "__main__":
    main()
