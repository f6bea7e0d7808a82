"""Collectives and messages of the whole world: parts of nccl_ops.py."""

import math
import time

import torch
import torch.distributed as dist
from nccl_ops_parts import DEVICE, RANK, RANKS, WORLD, gpu, part, same

# --- One tensor -----------------------------------------------------------------------------------


@part
def all_reduce_operations():
    ops = dist.ReduceOp
    mine = [RANK + 1, 2.0 * RANK, -3.0 - RANK]
    all_values = [[r + 1, 2.0 * r, -3.0 - r] for r in RANKS]
    columns = list(zip(*all_values))
    for op, expected in (
        (ops.SUM, [sum(c) for c in columns]),
        (ops.AVG, [sum(c) / WORLD for c in columns]),
        (ops.MAX, [max(c) for c in columns]),
        (ops.MIN, [min(c) for c in columns]),
        (ops.PRODUCT, [math.prod(c) for c in columns]),
    ):
        tensor = gpu(mine)
        dist.all_reduce(tensor, op)
        same(tensor, expected)
    tensor = gpu(mine)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(2.0))
    same(tensor, [2 * sum(c) for c in columns])
    tensor = gpu(mine)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(gpu([0.5])))
    same(tensor, [sum(c) / 2 for c in columns])


@part
def all_reduce_types():
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16,
                  torch.int64, torch.int32, torch.int8, torch.uint8):
        for op, expected in ((dist.ReduceOp.SUM, [sum(r + i for r in RANKS) for i in range(3)]),
                             (dist.ReduceOp.MAX, [WORLD - 1 + i for i in range(3)]),
                             (dist.ReduceOp.PRODUCT, [math.prod(r + i for r in RANKS) for i in range(3)])):
            tensor = gpu([RANK + i for i in range(3)], dtype)
            dist.all_reduce(tensor, op)
            same(tensor, expected)
    # Of booleans, a sum is "or" and a minimum "and".
    for op, expected in ((dist.ReduceOp.SUM, [True, True, False]), (dist.ReduceOp.MAX, [True, True, False]),
                         (dist.ReduceOp.MIN, [True, False, False]),
                         (dist.ReduceOp.PRODUCT, [True, False, False])):
        tensor = gpu([True, RANK == 0, False], torch.bool)
        dist.all_reduce(tensor, op)
        same(tensor, expected)
    tensor = gpu([complex(RANK, 1)], torch.complex64)
    dist.all_reduce(tensor)
    same(tensor, [complex(sum(RANKS), WORLD)])
    tensor = gpu([0.1] * 3, torch.bfloat16)
    dist.all_reduce(tensor)
    assert torch.allclose(tensor.cpu().float(), torch.full((3,), 0.1 * WORLD), rtol=0.02)


@part
def views():
    """Parts of a larger tensor; what is around them stays."""
    whole = gpu(list(range(100)))
    dist.all_reduce(whole[10:20])
    same(whole, [i * WORLD if 10 <= i < 20 else i for i in range(100)])
    matrix = gpu([[1.0, 2.0], [3.0, 4.0]])
    dist.broadcast(matrix[RANK % 2], 0)
    same(matrix, [[1.0, 2.0], [3.0, 4.0] if RANK % 2 == 0 else [1.0, 2.0]])
    empty = gpu([])
    dist.all_reduce(empty)
    assert empty.numel() == 0


@part
def broadcast_and_reduce():
    for root in RANKS:
        for dtype in (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.float8_e4m3fn):
            if dtype == torch.float8_e4m3fn:  # as bytes: NCCL 2.21 has no float8
                tensor = torch.full((4,), RANK + 1).to(dtype).to(DEVICE).view(torch.uint8)
                expected = torch.full((4,), root + 1).to(dtype).view(torch.uint8).tolist()
            else:
                tensor = gpu([RANK + 1, 0, RANK], dtype)
                expected = torch.tensor([root + 1, 0, root], dtype=dtype).tolist()
            dist.broadcast(tensor, root)
            same(tensor, expected)
        tensor = gpu([RANK, 1])
        dist.reduce(tensor, root)
        if RANK == root:
            same(tensor, [sum(RANKS), WORLD])
        else:
            same(tensor, [RANK, 1])
        tensor = gpu([RANK, 1])
        dist.reduce(tensor, root, dist.ReduceOp.MAX)
        if RANK == root:
            same(tensor, [WORLD - 1, 1])


@part
def large_tensors():
    # Larger than what a pipeline of NCCL holds at once.
    count = 5_000_000
    tensor = torch.arange(count, dtype=torch.int32).add(RANK).to(DEVICE)
    dist.broadcast(tensor, WORLD - 1)
    assert torch.equal(tensor.cpu(), torch.arange(count, dtype=torch.int32).add(WORLD - 1))
    out = torch.empty(WORLD * count, dtype=torch.int32, device=DEVICE)
    dist.all_gather_into_tensor(out, torch.full((count,), RANK, dtype=torch.int32).to(DEVICE))
    assert torch.equal(out.cpu(), torch.arange(WORLD, dtype=torch.int32).repeat_interleave(count))
    # 800 kB: below the size above which phantora-run leaves reductions out.
    tensor = torch.arange(200_000, dtype=torch.float32).to(DEVICE)
    dist.all_reduce(tensor)
    assert torch.equal(tensor.cpu(), torch.arange(200_000, dtype=torch.float32) * WORLD)


# --- Gathering and scattering ---------------------------------------------------------------------


@part
def all_gather():
    outputs = [gpu([-1.0, -1.0]) for _ in RANKS]
    dist.all_gather(outputs, gpu([RANK, 10 * RANK]))
    for r, output in enumerate(outputs):
        same(output, [r, 10 * r])
    # Sizes differ: NCCL gets a group of broadcasts.
    outputs = [gpu([-1.0] * (r + 1)) for r in RANKS]
    dist.all_gather(outputs, gpu([RANK] * (RANK + 1)))
    for r, output in enumerate(outputs):
        same(output, [r] * (r + 1))
    output = gpu([[-1] * 2] * WORLD, torch.int64)
    dist.all_gather_into_tensor(output, gpu([RANK, 10 * RANK], torch.int64))
    same(output, [[r, 10 * r] for r in RANKS])
    # In place, as FSDP does it.
    output = gpu([float(RANK)] * WORLD)
    dist.all_gather_into_tensor(output, output[RANK:RANK + 1])
    same(output, list(RANKS))


@part
def reduce_scatter():
    mine = [[100.0 * RANK + r, 1.0] for r in RANKS]
    total = [[100.0 * sum(RANKS) + WORLD * r, float(WORLD)] for r in RANKS]
    output = gpu([-1.0, -1.0])
    dist.reduce_scatter_tensor(output, gpu(mine))
    same(output, total[RANK])
    dist.reduce_scatter_tensor(output, gpu(mine), dist.ReduceOp.AVG)
    same(output, [value / WORLD for value in total[RANK]])
    dist.reduce_scatter_tensor(output, gpu(mine), dist.ReduceOp.MAX)
    same(output, [100.0 * (WORLD - 1) + RANK, 1.0])
    output = gpu([-1.0, -1.0])
    dist.reduce_scatter(output, [gpu(row) for row in mine])
    same(output, total[RANK])
    # In place.
    buffer = gpu(mine)
    dist.reduce_scatter_tensor(buffer[RANK], buffer)
    same(buffer[RANK], total[RANK])
    # Sizes differ: NCCL gets a group of reductions.
    output = gpu([-1.0] * (RANK + 1))
    dist.reduce_scatter(output, [gpu([RANK] * (r + 1)) for r in RANKS])
    same(output, [sum(RANKS)] * (RANK + 1))


@part
def all_to_all():
    output = gpu([-1] * WORLD, torch.int64)
    dist.all_to_all_single(output, gpu([10 * RANK + r for r in RANKS], torch.int64))
    same(output, [10 * r + RANK for r in RANKS])
    # Rank a sends b + 1 elements to rank b.
    output = gpu([-1.0] * ((RANK + 1) * WORLD))
    dist.all_to_all_single(output, gpu([10.0 * RANK + r for r in RANKS for _ in range(r + 1)]),
                           output_split_sizes=[RANK + 1] * WORLD, input_split_sizes=[r + 1 for r in RANKS])
    same(output, [10.0 * r + RANK for r in RANKS for _ in range(RANK + 1)])
    # Nothing for the first rank.
    output = gpu([-1.0] * (RANK * WORLD))
    dist.all_to_all_single(output, gpu([10.0 * RANK + r for r in RANKS for _ in range(r)]),
                           output_split_sizes=[RANK] * WORLD, input_split_sizes=list(RANKS))
    same(output, [10.0 * r + RANK for r in RANKS for _ in range(RANK)])
    outputs = [gpu([-1.0] * (r + 1)) for r in RANKS]
    dist.all_to_all(outputs, [gpu([10.0 * RANK + r] * (RANK + 1)) for r in RANKS])
    for r, tensor in enumerate(outputs):
        same(tensor, [10.0 * r + RANK] * (r + 1))


@part
def gather_and_scatter():
    for root in RANKS:
        outputs = [gpu([-1.0]) for _ in RANKS] if RANK == root else None
        dist.gather(gpu([RANK + 0.5]), outputs, root)
        if RANK == root:
            for r, output in enumerate(outputs):
                same(output, [r + 0.5])
        output = gpu([-1.0, -1.0])
        dist.scatter(output, [gpu([r, root]) for r in RANKS] if RANK == root else None, root)
        same(output, [RANK, root])


# --- Point to point -------------------------------------------------------------------------------


@part
def send_and_receive():
    after, before = (RANK + 1) % WORLD, (RANK - 1) % WORLD
    tensor = gpu([-1.0, -1.0])
    if RANK == 0:
        dist.send(gpu([0.0, 7.0]), after)
        dist.recv(tensor, before)
        same(tensor, [WORLD - 1, 7.0])
    else:
        dist.recv(tensor, before)
        same(tensor, [before, 7.0])
        dist.send(gpu([RANK, 7.0]), after)
    # Without blocking, lower ranks first, so that every pair finds each other.
    for a in RANKS:
        for b in range(a + 1, WORLD):
            if RANK == a:
                dist.isend(gpu([a, b]), b).wait()
            elif RANK == b:
                tensor = gpu([-1.0, -1.0])
                dist.irecv(tensor, a).wait()
                same(tensor, [a, b])
    # Bytes of other types.
    if RANK == 0:
        dist.send(gpu([1, 2, 250], torch.uint8), 1)
        dist.send(gpu([True, False], torch.bool), 1)
        dist.send(gpu([], torch.float16), 1)
    elif RANK == 1:
        for values, dtype in (([1, 2, 250], torch.uint8), ([True, False], torch.bool), ([], torch.float16)):
            tensor = gpu([0] * len(values), dtype)
            dist.recv(tensor, 0)
            same(tensor, values)


@part
def batch_of_sends():
    after, before = (RANK + 1) % WORLD, (RANK - 1) % WORLD
    right, left = gpu([-1.0] * 3), gpu([-1.0])
    operations = [dist.P2POp(dist.isend, gpu([RANK] * 3), after), dist.P2POp(dist.irecv, right, before),
                  dist.P2POp(dist.isend, gpu([100.0 + RANK]), before), dist.P2POp(dist.irecv, left, after)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    same(right, [before] * 3)
    same(left, [100.0 + after])
    # Several messages between two ranks stay in order.
    received = [gpu([-1.0]) for _ in range(8)]
    operations = []
    for i in range(8):
        operations += [dist.P2POp(dist.isend, gpu([10.0 * RANK + i]), after),
                       dist.P2POp(dist.irecv, received[i], before)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    for i, tensor in enumerate(received):
        same(tensor, [10.0 * before + i])
    # To oneself, which is allowed in a batch.
    own = gpu([-1.0])
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, gpu([RANK]), RANK),
                                        dist.P2POp(dist.irecv, own, RANK)]):
        work.wait()
    same(own, [RANK])


# --- Several at once ------------------------------------------------------------------------------


@part
def coalesced():
    tensors = [gpu([RANK, i]) for i in range(5)]
    dist.all_reduce_coalesced(tensors)
    for i, tensor in enumerate(tensors):
        same(tensor, [sum(RANKS), WORLD * i])
    tensors = [gpu([RANK + 1.0, i]) for i in range(5)]
    with dist._coalescing_manager(device=DEVICE, async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for i, tensor in enumerate(tensors):
        same(tensor, [sum(RANKS) + WORLD, WORLD * i])
    outputs = [gpu([-1.0] * WORLD) for _ in range(3)]
    with dist._coalescing_manager(device=DEVICE):
        for i, output in enumerate(outputs):
            dist.all_gather_into_tensor(output, gpu([RANK + 10.0 * i]))
    for i, output in enumerate(outputs):
        same(output, [r + 10.0 * i for r in RANKS])
    outputs = [gpu([-1.0]) for _ in range(3)]
    with dist._coalescing_manager(device=DEVICE):
        for i, output in enumerate(outputs):
            dist.reduce_scatter_tensor(output, gpu([i + r for r in RANKS]))
    for i, output in enumerate(outputs):
        same(output, [WORLD * (i + RANK)])


@part
def handles():
    tensors = [gpu([RANK] * 1000) for _ in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in works:
        work.wait()
    for tensor in tensors:
        same(tensor, [sum(RANKS)] * 1000)
    torch.cuda.synchronize()
    assert all(work.is_completed() for work in works)
    # The host asks whether it is done.
    tensor = gpu([1.0])
    work = dist.all_reduce(tensor, async_op=True)
    while not work.is_completed():
        time.sleep(1e-4)
    same(tensor, [WORLD])
    # From another stream, which has to wait for it.
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        tensor = gpu([2.0])
        dist.all_reduce(tensor)
        copy = tensor.clone()
    stream.synchronize()
    same(tensor, [2 * WORLD])
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    tensor = torch.zeros(64 << 20, dtype=torch.uint8, device=DEVICE)
    dist.barrier()
    start.record()
    dist.all_reduce(tensor)
    end.record()
    end.synchronize()
    took = start.elapsed_time(end)
    assert 0.05 < took < 1000, took
    if RANK == 0:
        print(f"all_reduce of 64 MiB: {took:.3f} ms")


@part
def barriers():
    dist.barrier()
    dist.barrier(device_ids=[DEVICE.index])
    dist.barrier(async_op=True).wait()
    for _ in range(20):
        dist.barrier()


@part
def functional():
    import torch.distributed._functional_collectives as functions
    group = dist.group.WORLD
    same(functions.all_reduce(gpu([RANK]), "sum", group), [sum(RANKS)])
    same(functions.all_gather_tensor(gpu([RANK]), 0, group), list(RANKS))
    same(functions.reduce_scatter_tensor(gpu([float(r) for r in RANKS]), "sum", 0, group), [WORLD * RANK])
    same(functions.all_to_all_single(gpu([10.0 * RANK + r for r in RANKS]), None, None, group),
         [10.0 * r + RANK for r in RANKS])
    same(functions.broadcast(gpu([RANK]), WORLD - 1, group), [WORLD - 1])
