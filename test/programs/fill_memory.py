"""Moves memory about as asked, and prints what became of it.

usage: fill_memory.py zeros|equal|different [MIB]
"""

import sys

import torch

MIB = 1 << 20


def zeros():
    """60 GiB on each of two GPUs, through every kind of copy; none of it is anything but zero."""
    big = [torch.empty(60 << 30, dtype=torch.uint8, device=f"cuda:{i}") for i in range(2)]
    pinned = torch.zeros(256 * MIB, dtype=torch.uint8).pin_memory()
    pageable = torch.zeros(64 * MIB, dtype=torch.uint8)
    big[0][:256 * MIB].copy_(pinned, non_blocking=True)
    big[0][1 << 30:(1 << 30) + 64 * MIB].copy_(pageable)
    big[0][30 << 30:].copy_(big[0][:30 << 30])
    big[1].copy_(big[0])
    pinned.copy_(big[1][5:5 + 256 * MIB])
    back = big[1][(59 << 30) + 3:(59 << 30) + 3 + 64 * MIB].cpu()
    torch.cuda.synchronize()
    assert not back.any() and not pinned.any()
    print("zeros", torch.cuda.memory_allocated() >> 30)


def equal(mib):
    """The same bytes on two GPUs: as a copy, and each from the host."""
    host = torch.randint(1, 255, (mib * MIB,), dtype=torch.uint8)
    first, second = host.to("cuda:0"), host.to("cuda:1")
    third = first.to("cuda:1")
    changed = second.clone()
    changed[12345:12345 + 8].copy_(torch.arange(100, 108, dtype=torch.uint8))
    torch.cuda.synchronize()
    for copy in (first, second, third):
        assert torch.equal(copy.cpu(), host)
    host[12345:12345 + 8] = torch.arange(100, 108, dtype=torch.uint8)
    assert torch.equal(changed.cpu(), host)
    print("equal", mib)


def different(mib):
    """Bytes that nothing else has, 16 MiB at a time, until there is no more memory."""
    kept = []
    try:
        for i in range(mib // 16):
            kept.append(torch.randint(1, 255, (16 * MIB,), dtype=torch.uint8).cuda())
            torch.cuda.synchronize()
            print("kept", 16 * (i + 1), flush=True)
    except torch.OutOfMemoryError as error:
        print("refused:", str(error).split(".")[0])


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[2:]]
    {"zeros": zeros, "equal": equal, "different": different}[sys.argv[1]](*arguments)
