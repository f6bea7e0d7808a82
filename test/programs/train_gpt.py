#!/usr/bin/env python3
"""Trains a small GPT on one GPU, with every AdamW implementation and every attention backend in turn."""

import argparse
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import DataLoader, Dataset

from train_ddp import GPT, train_step

BACKENDS = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)
OPTIMIZERS = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


class RandomTokens(Dataset):
    """Sequences of random tokens, the same for the same index."""

    def __init__(self, length, seq, vocab):
        self.length, self.seq, self.vocab = length, seq, vocab

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if not 0 <= index < self.length:
            raise IndexError(index)
        generator = torch.Generator().manual_seed(index)
        return torch.randint(self.vocab, (self.seq + 1,), generator=generator)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4, help="steps for each optimizer and attention backend")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=1024)
    parser.add_argument("--workers", type=int, default=2, help="processes that load data")
    return parser.parse_args()


def train(args, optimizer_name, backend):
    torch.manual_seed(0)
    model = GPT(args.vocab, args.seq, args.layers, args.hidden, args.heads).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, **OPTIMIZERS[optimizer_name])
    dataset = RandomTokens(args.steps * args.batch, args.seq, args.vocab)
    loader = DataLoader(dataset, batch_size=args.batch, num_workers=args.workers, pin_memory=True)

    torch.cuda.reset_peak_memory_stats()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    milliseconds, wall_start = [], None
    for step, batch in enumerate(loader):
        if step == 1:
            wall_start = time.perf_counter()  # The first step also loads kernels.
        assert batch.is_pinned()
        tokens = batch.to("cuda", non_blocking=True)
        start.record()
        with sdpa_kernel(backend):
            loss = train_step(model, optimizer, tokens)
        end.record()
        torch.cuda.synchronize()
        milliseconds.append(start.elapsed_time(end))
        assert torch.equal(tokens.cpu(), torch.stack([dataset[step * args.batch + i] for i in range(args.batch)]))
        float(loss.item())
    seconds = time.perf_counter() - wall_start

    assert step == args.steps - 1 and start.query() and end.query()
    assert all(t > 0 for t in milliseconds), milliseconds
    parameter_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    gradient_bytes = sum(p.grad.numel() * p.grad.element_size() for p in model.parameters())
    assert gradient_bytes == parameter_bytes
    # Parameters, gradients and AdamW's two moments are alive together.
    peak = torch.cuda.max_memory_allocated()
    assert 4 * parameter_bytes < peak < torch.cuda.get_device_properties(0).total_memory, (peak, parameter_bytes)
    assert torch.cuda.memory_allocated() <= peak <= torch.cuda.max_memory_reserved()
    print(
        f"{optimizer_name:9} {backend.name:20} {milliseconds[-1]:9.3f} ms by events"
        f"  {(args.steps - 1) / seconds:6.2f} steps/s  loss {loss.item():.4f}  peak {peak / 2**20:.1f} MiB",
        flush=True,
    )


def main():
    args = parse_args()
    print(torch.cuda.get_device_properties(0))
    for optimizer_name in OPTIMIZERS:
        train(args, optimizer_name, SDPBackend.FLASH_ATTENTION)
    for backend in BACKENDS[1:]:
        train(args, "fused", backend)
    summary = torch.cuda.memory_summary()
    assert "Allocated memory" in summary
    print(summary)
    print("PASS train_gpt")


if __name__ == "__main__":
    main()
