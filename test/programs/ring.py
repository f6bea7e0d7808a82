#!/usr/bin/env python3
"""An engine without a GPU hands steps to workers with one each, and waits until all have answered, as servers do that
compute with tensor parallelism.

    ring.py WAY STEPS KERNELS WORKERS [graph]

WAY is how everybody waits: "pipe", or "spin" as vLLM's message queue does (sched_yield and a look at the clock, until
shared memory says so). With several workers, each step ends with an all-reduce. Prints the median of the steps as the
engine and as the slowest worker of each saw them, in milliseconds, and the engine's processor time per step.
"""

import mmap
import os
import statistics
import sys
import time

WAY, STEPS, KERNELS, WORKERS = sys.argv[1], *map(int, sys.argv[2:5])
GRAPH = "graph" in sys.argv[5:]
SHARED = mmap.mmap(-1, 4096)  # a byte per channel
PORT = 29611


class Channel:
    """One tells, one waits."""

    made = 0

    def __init__(self):
        self.index, Channel.made = Channel.made, Channel.made + 1
        self.reads, self.writes = os.pipe()

    def tell(self, step):
        SHARED[self.index] = step % 256
        if WAY == "pipe":
            os.write(self.writes, b"x")

    def wait(self, step):
        if WAY == "pipe":
            os.read(self.reads, 1)
            return
        begin = time.monotonic()
        while SHARED[self.index] != step % 256:
            os.sched_yield()
            assert time.monotonic() - begin < 600, "nobody answers"


def worker(rank, todo, done, result):
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    if WORKERS > 1:
        dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{PORT}", rank=rank, world_size=WORKERS)
    x = torch.ones(256, 256, device="cuda")

    def work():
        for _ in range(KERNELS):
            x.mul_(1.0)
        if WORKERS > 1:
            dist.all_reduce(x)

    work()
    torch.cuda.synchronize()
    run = work
    if GRAPH:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            work()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        run = graph.replay
    took = []
    done.tell(STEPS + 1)  # it is there
    for step in range(STEPS):
        todo.wait(step)
        begin = time.monotonic()
        run()
        torch.cuda.synchronize()
        took.append(time.monotonic() - begin)
        done.tell(step)
    os.write(result, " ".join(map(str, took)).encode() + b"\n")
    os._exit(0)


def main():
    todo, done = [[Channel() for _ in range(WORKERS)] for _ in range(2)]
    for channel in todo:
        SHARED[channel.index] = 255
    results, result = os.pipe()
    for rank in range(WORKERS):
        if os.fork() == 0:
            worker(rank, todo[rank], done[rank], result)
    for channel in done:
        channel.wait(STEPS + 1)
    took, used = [], time.process_time()
    for step in range(STEPS):
        begin = time.monotonic()
        for channel in todo:
            channel.tell(step)
        for channel in done:
            channel.wait(step)
        took.append(time.monotonic() - begin)
    used = (time.process_time() - used) / STEPS
    for _ in range(WORKERS):
        assert os.wait()[1] == 0
    os.close(result)
    # In each step another may be the slowest.
    with os.fdopen(results) as lines:
        workers = [list(map(float, line.split())) for line in lines]
    slowest = 1e3 * statistics.median(map(max, zip(*workers)))
    print(f"engine {1e3 * statistics.median(took):.4f} worker {slowest:.4f} processor {1e3 * used:.4f}")


if __name__ == "__main__":
    main()
