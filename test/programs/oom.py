#!/usr/bin/env python3
"""Allocates until the GPU is full, checks what PyTorch says about it, then goes on."""

import re

import torch

GIB = 2**30


def fill(chunk):
    tensors = []
    try:
        while True:
            tensors.append(torch.empty(chunk, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError as error:
        return tensors, str(error)


def find_gib(pattern, message):
    number, unit = re.search(pattern + r" ([\d.]+) (GiB|MiB|KiB|bytes)", message).groups()
    return float(number) * {"GiB": 1, "MiB": 2**-10, "KiB": 2**-20, "bytes": 2**-30}[unit]


def check_message(message, allocated):
    capacity = torch.cuda.get_device_properties(0).total_memory / GIB
    assert message.startswith("CUDA out of memory. Tried to allocate 1024.00 MiB."), message
    assert abs(find_gib("GPU 0 has a total capacity of", message) - capacity) < 0.006, message
    free = find_gib("of which", message)
    assert free < 1, message
    in_use = find_gib("this process has", message)
    assert allocated / GIB < in_use <= capacity and abs(in_use + free - capacity) < 2, message
    assert abs(find_gib("Of the allocated memory", message) - allocated / GIB) < 0.006, message


def main():
    total = torch.cuda.get_device_properties(0).total_memory
    tensors, message = fill(GIB)
    print(message)
    allocated = len(tensors) * GIB
    # The context takes something, but not as much as 2 GiB.
    assert total - 3 * GIB < allocated < total
    check_message(message, allocated)

    # What is there keeps working.
    data = torch.arange(1000)
    tensors[-1][:8000].copy_(data.view(torch.uint8))
    assert torch.equal(tensors[-1][:8000].cpu(), data.view(torch.uint8))

    # Room again for one, then for all.
    tensors.pop()
    torch.cuda.empty_cache()
    tensors.append(torch.empty(GIB, dtype=torch.uint8, device="cuda"))
    count = len(tensors)
    tensors.clear()
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    assert free > allocated
    tensors, _ = fill(GIB)
    assert len(tensors) == count
    tensors.clear()
    torch.cuda.empty_cache()
    big = torch.empty(allocated - 2 * GIB, dtype=torch.uint8, device="cuda")
    big[-8000:].copy_(data.view(torch.uint8))
    assert torch.equal(big[-8000:].cpu(), data.view(torch.uint8))
    print(f"{count} GiB of {total / GIB:.2f} GiB")
    print("PASS oom")


if __name__ == "__main__":
    main()
