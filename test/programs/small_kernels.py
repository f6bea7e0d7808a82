#!/usr/bin/env python3
"""What small kernels compute is right where Phantora carries them out: comparisons, sums, fills and
the like of a few integers, by which programs take decisions.

    small_kernels.py
"""

import torch

DEVICE = "cuda"
TYPES = (torch.int64, torch.int32, torch.float32, torch.float64, torch.uint8)


def on(device, values, dtype=torch.int64):
    return torch.tensor(values, dtype=dtype).to(device)


def operations(device, dtype):
    """Name and result of every operation."""
    a, b = on(device, [3, 1, 4, 1, 5], dtype), on(device, [2, 7, 4, 8, 1], dtype)
    yield "a > b", a > b
    yield "a >= b", a >= b
    yield "a < b", a < b
    yield "a <= b", a <= b
    yield "a == b", a == b
    yield "a != b", a != b
    yield "a > 2", a > 2
    yield "a == 1", a == 1
    yield "5 - a", 5 - a
    yield "a + b", a + b
    yield "a - b", a - b
    yield "a + 2b", torch.add(a, b, alpha=2)
    yield "a + 3", a + 3
    yield "a * b", a * b
    yield "a * 3", a * 3
    yield "sum", a.sum(dtype=dtype)
    yield "maximum", a.max()
    yield "minimum", a.min()
    yield "full", torch.full((7,), 9, dtype=dtype, device=device)
    yield "ones", torch.ones(3, 5, dtype=dtype, device=device)
    yield "cat", torch.cat([a, b, a])
    yield "stack", torch.stack([a[0], b[1]])
    yield "cat of pieces", torch.cat([a[1:], b[:2]])
    yield "to int64", a.to(torch.int64)
    yield "to float", a.to(torch.float32)
    yield "to bool", a.to(torch.bool)
    rows = torch.stack([on(device, [1, 2, 3], dtype), on(device, [4, 5, 6], dtype)])
    yield "sum of rows", rows.reshape(2, 3).sum(1, dtype=dtype)
    yield "sum of columns", rows.reshape(2, 3).sum(0, dtype=dtype)
    flags = a > b
    yield "count", flags.sum()
    yield "any", flags.any()
    yield "all", flags.all()
    yield "not", ~flags
    yield "and", flags & (a > 3)
    yield "or", flags | (a > 3)
    if not dtype.is_floating_point:
        yield "bit and", a & b
        yield "bit xor", a ^ 5
    if dtype == torch.float32:
        yield "mean", a.mean()
        yield "a / 4", a / 4
    if dtype != torch.uint8:
        yield "negative", -a


def main():
    wrong = []
    for dtype in TYPES:
        for (name, got), (_, expected) in zip(operations(DEVICE, dtype), operations("cpu", dtype)):
            if not torch.equal(got.cpu(), expected):
                wrong.append(f"{name} of {dtype}: {got.cpu().tolist()}, not {expected.tolist()}")
    # Results are what later kernels start from, and a decision by one goes the right way.
    total = on(DEVICE, [0])
    steps = 0
    while total.item() < 10:
        total += 3
        steps += 1
    if steps != 4:
        wrong.append(f"a loop until a sum is 10 took {steps} steps")
    lengths = [on(DEVICE, [n]) for n in (4, 9, 2)]
    if max(lengths).item() != 9:
        wrong.append("the maximum of a list")
    assert not wrong, "\n".join(wrong)
    print("PASSED small_kernels")


if __name__ == "__main__":
    main()
