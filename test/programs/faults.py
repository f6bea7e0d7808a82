#!/usr/bin/env python3
"""Distributed programs with a mistake in them, one per mode.

    torchrun --standalone --nproc-per-node 2 faults.py MODE

No rank may say that it got to the end; MODE "none" has no mistake.
"""

import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

MODE = sys.argv[1]
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
# Ends what waits for the others, as PyTorch does it: after this time on the ranks' clocks.
TIMEOUT = datetime.timedelta(seconds=float(os.environ.get("TIMEOUT", 600)))


def all_reduce(count=1000, group=None, dtype=torch.float32):
    tensor = torch.zeros(count, dtype=dtype, device=DEVICE)
    dist.all_reduce(tensor, group=group)
    return tensor


def first_half_differs(first, second):
    (first if RANK < WORLD // 2 else second)()


def raises():
    if RANK == WORLD - 1:
        raise ValueError("a mistake in the middle of training")
    all_reduce()


def exits():
    if RANK == WORLD - 1:
        os._exit(3)
    all_reduce()


def leaves_early():
    if RANK == WORLD - 1:
        sys.exit(0)
    all_reduce()


def killed():
    if RANK == WORLD - 1:
        tensor = torch.zeros(256 << 20, dtype=torch.uint8, device=DEVICE)
        dist.all_reduce(tensor)
        os.kill(os.getpid(), signal.SIGKILL)
    all_reduce(256 << 20, dtype=torch.uint8)
    all_reduce()


def segfaults():
    if RANK == WORLD - 1:
        import ctypes
        ctypes.string_at(0)
    all_reduce()


def different_collectives():
    tensor = torch.zeros(1000, device=DEVICE)
    first_half_differs(all_reduce, lambda: dist.broadcast(tensor, 0))


def different_sizes():
    all_reduce(1000 + RANK)


def different_types():
    all_reduce(dtype=torch.float32 if RANK else torch.float16)


def different_roots():
    dist.broadcast(torch.zeros(1000, device=DEVICE), RANK % 2)


def different_message_sizes():
    tensor = torch.zeros(1000 + WORLD - RANK, device=DEVICE)
    first_half_differs(lambda: dist.send(tensor, WORLD - 1), lambda: dist.recv(tensor, 0))


def receives_only():
    dist.recv(torch.zeros(1000, device=DEVICE), (RANK + 1) % WORLD)


def never_calls():
    if RANK == WORLD - 1:
        time.sleep(1e6)
    all_reduce()


def computes_forever():
    if RANK == WORLD - 1:
        while True:
            pass
    all_reduce()


def two_communicators():
    """One rank waits for the first before it starts the second, the other the other way round."""
    one, other = dist.new_group(), dist.new_group()
    all_reduce(group=one)
    all_reduce(group=other)
    torch.cuda.synchronize()
    for group in (one, other) if RANK % 2 else (other, one):
        all_reduce(group=group)
        torch.cuda.synchronize()


def two_communicators_one_stream():
    """The same without a wait on the host: each GPU waits for the other."""
    one, other = dist.new_group(), dist.new_group()
    tensor = all_reduce(group=one)
    dist.all_reduce(tensor, group=other)
    torch.cuda.synchronize()
    for group in (one, other) if RANK % 2 else (other, one):
        dist.all_reduce(tensor, group=group)
    torch.cuda.synchronize()


def out_of_memory():
    if RANK == WORLD - 1:
        torch.empty(1 << 40, dtype=torch.uint8, device=DEVICE)
    all_reduce()


def main():
    torch.cuda.set_device(DEVICE)
    if MODE == "never_joins" and RANK == WORLD - 1:
        time.sleep(1e6)
    dist.init_process_group("nccl", device_id=DEVICE, timeout=TIMEOUT)
    all_reduce()
    torch.cuda.synchronize()
    print(f"rank {RANK}: trains", flush=True)
    if MODE not in ("none", "never_joins"):
        globals()[MODE]()
    torch.cuda.synchronize()
    print(f"rank {RANK}: got to the end", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
