#!/usr/bin/env python3
"""Grows and shrinks allocations with PyTorch's expandable segments and compares them with the driver's accounts."""

import os
import random

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

import torch

MIB = 2**20


def driver_used():
    free, total = torch.cuda.mem_get_info()
    assert 0 <= free <= total == torch.cuda.get_device_properties(0).total_memory
    return total - free


def check_accounts(base):
    """The driver must have handed out what PyTorch says it reserved, to the byte."""
    stats = torch.cuda.memory_stats()
    reserved = stats["reserved_bytes.all.current"]
    assert stats["allocated_bytes.all.current"] <= reserved
    assert driver_used() - base == reserved, (driver_used() - base, reserved)
    return reserved


def grow_and_shrink(base):
    tensors = []
    for size in (1, 3, 20, 100, 500, 2000, 8000):
        tensors.append(torch.empty(size * MIB, dtype=torch.uint8, device="cuda"))
        check_accounts(base)
    assert torch.cuda.memory_allocated() == sum(t.numel() for t in tensors)
    full = check_accounts(base)
    # Every second tensor goes; the pages in the middle of the segment must come back to the driver.
    del tensors[::2]
    torch.cuda.empty_cache()
    assert check_accounts(base) < full
    tensors.append(torch.empty(4000 * MIB, dtype=torch.uint8, device="cuda"))
    check_accounts(base)
    tensors.clear()
    torch.cuda.empty_cache()
    assert check_accounts(base) == 0


def contents_survive(base):
    """Tensors keep their contents while others around them come and go."""
    generator = random.Random(0)
    kept = []
    for i in range(40):
        size = generator.choice((1000, 300_000, 3 * MIB, 9 * MIB))
        data = torch.randint(256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(i))
        kept.append((data, data.cuda()))
        if i % 4 == 3:
            kept.pop(generator.randrange(len(kept)))
            torch.cuda.empty_cache()
        check_accounts(base)
    for data, copy in kept:
        assert torch.equal(copy.cpu(), data)


def larger_than_the_gpu(base):
    total = torch.cuda.mem_get_info()[1]
    try:
        torch.empty(total, dtype=torch.uint8, device="cuda")
        raise AssertionError("allocated the whole GPU")
    except torch.cuda.OutOfMemoryError:
        pass
    torch.cuda.empty_cache()
    check_accounts(base)


def main():
    torch.empty(1, device="cuda")
    torch.cuda.empty_cache()
    base = driver_used() - torch.cuda.memory_reserved()
    assert base > 0  # The context itself.
    grow_and_shrink(base)
    contents_survive(base)
    torch.cuda.empty_cache()
    larger_than_the_gpu(base)
    stats = torch.cuda.memory_stats()
    assert stats["num_ooms"] == 1 and stats["reserved_bytes.all.peak"] > 10_000 * MIB
    print(f"context {base / MIB:.0f} MiB, peak {stats['reserved_bytes.all.peak'] / MIB:.0f} MiB")
    print("PASS allocator")


if __name__ == "__main__":
    main()
