#!/usr/bin/env python3
"""The all-reduce that vLLM has of its own: do ranks get sums, and wait for each other?

    phantora-run --cluster dgx-h100:1 --ranks-per-host 2 -- python test/programs/engine_reduce.py

Needs an environment with vLLM (tools/setup.sh framework vllm-0.12.0). Ends with 1 if a sum is wrong, or if a rank's
operation is over before the last rank has come to it.
"""

import os
import sys

os.environ.setdefault("VLLM_SKIP_P2P_CHECK", "1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from vllm.distributed.device_communicators.custom_all_reduce import CustomAllreduce  # noqa: E402

# Of the GPU's clock: more than a millisecond.
LATE = 3_000_000


def expected(make, ranks, dtype):
    """Sums as the kernel makes them: in float32, rank after rank."""
    total = make(0).float()
    for rank in range(1, ranks):
        total += make(rank).float()
    return total.to(dtype)


def check(reduce, rank, ranks):
    wrong = 0
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for count in (8, 1000, 40_000, 200_000):

            def make(of, count=count, dtype=dtype):
                # Small whole numbers, whose sums every type has.
                return ((torch.arange(count) * (of + 3)) % 61).to(dtype)

            got = reduce.custom_all_reduce(make(rank).cuda())
            if got is None or not torch.equal(got.cpu(), expected(make, ranks, dtype)):
                print(f"rank {rank}: wrong sum of {count} {dtype}", flush=True)
                wrong += 1
    return wrong


def graph(reduce, rank, ranks):
    """In a CUDA graph, replayed three times."""
    numbers = torch.full((1024,), float(rank + 1), device="cuda", dtype=torch.bfloat16)
    stream = torch.cuda.Stream()
    with reduce.capture(), torch.cuda.stream(stream):
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded, stream=stream):
            result = reduce.custom_all_reduce(numbers)
    for factor in (1, 2, 3):
        numbers.fill_(float((rank + 1) * factor))
        torch.cuda.synchronize()
        recorded.replay()
        torch.cuda.synchronize()
        if result[0].item() != factor * ranks * (ranks + 1) / 2:
            print(f"rank {rank}: the graph gives {result[0].item()}", flush=True)
            return 1
    return 0


def wait(reduce, rank, ranks):
    """The last rank comes late: nobody's operation is over before."""
    numbers = torch.ones(1024, device="cuda", dtype=torch.bfloat16)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for late in (False, True):
        torch.cuda.synchronize()
        dist.barrier()
        begin.record()
        if late and rank == ranks - 1:
            torch.cuda._sleep(LATE)  # pylint: disable=protected-access
        reduce.custom_all_reduce(numbers)
        end.record()
        torch.cuda.synchronize()
        took = begin.elapsed_time(end)
        print(f"rank {rank}: {took:.3f} ms, {'the last is late' if late else 'all at once'}", flush=True)
        if late and took < 1:
            return 1
    return 0


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    reduce = CustomAllreduce(dist.group.WORLD, torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    if reduce.disabled:
        sys.exit("vLLM does not use its own all-reduce here")
    wrong = check(reduce, rank, ranks) + graph(reduce, rank, ranks) + wait(reduce, rank, ranks)
    dist.barrier()
    if rank == 0 and not wrong:
        print(f"RESULT sums of {ranks} ranks are right, and nobody is over before the last has come")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
