"""Groups of ranks, objects and graphs: parts of nccl_ops.py."""

import torch
import torch.distributed as dist
from nccl_ops_parts import RANK, RANKS, WORLD, gpu, part, same

# --- Groups ---------------------------------------------------------------------------------------


@part
def subgroups():
    halves = [list(range(WORLD // 2)), list(range(WORLD // 2, WORLD))]
    groups = [dist.new_group(half) for half in halves]
    mine = 0 if RANK in halves[0] else 1
    tensor = gpu([RANK])
    dist.all_reduce(tensor, group=groups[mine])
    same(tensor, [sum(halves[mine])])
    tensor = gpu([RANK])
    dist.broadcast(tensor, halves[mine][-1], group=groups[mine])
    same(tensor, [halves[mine][-1]])
    # Ranks of the group in another order than those of the world.
    backwards = dist.new_group(list(reversed(RANKS)), use_local_synchronization=False)
    output = gpu([-1.0] * WORLD)
    dist.all_gather_into_tensor(output, gpu([RANK]), group=backwards)
    same(output, [dist.get_global_rank(backwards, r) for r in RANKS])
    alone = [dist.new_group([r]) for r in RANKS][RANK]
    tensor = gpu([RANK])
    dist.all_reduce(tensor, group=alone)
    same(tensor, [RANK])
    twin = dist.new_group()
    tensor = gpu([RANK])
    dist.all_reduce(tensor, group=twin)
    same(tensor, [sum(RANKS)])
    # Two communicators at the same time.
    first, second = gpu([RANK] * 10000), gpu([RANK + 1.0] * 10000)
    works = [dist.all_reduce(first, async_op=True), dist.all_reduce(second, group=twin, async_op=True)]
    for work in works:
        work.wait()
    same(first, [sum(RANKS)] * 10000)
    same(second, [sum(RANKS) + WORLD] * 10000)
    for group in (groups[mine], twin):
        dist.destroy_process_group(group)


@part
def split_groups():
    halves = [list(range(WORLD // 2)), list(range(WORLD // 2, WORLD))]
    if not hasattr(dist, "split_group"):
        return
    group = dist.split_group(split_ranks=halves)
    mine = halves[0] if RANK in halves[0] else halves[1]
    tensor = gpu([RANK])
    dist.all_reduce(tensor, group=group)
    same(tensor, [sum(mine)])
    # A split of a split; each rank is in one, or PyTorch's numbers of groups differ between ranks.
    alone = dist.split_group(group, split_ranks=[[r] for r in range(len(mine))])
    tensor = gpu([RANK])
    dist.all_reduce(tensor, group=alone)
    same(tensor, [RANK])


@part
def meshes():
    from torch.distributed.device_mesh import init_device_mesh
    if WORLD % 2:
        return
    mesh = init_device_mesh("cuda", (WORLD // 2, 2), mesh_dim_names=("dp", "tp"))
    tensor = gpu([RANK])
    dist.all_reduce(tensor, group=mesh.get_group("tp"))
    same(tensor, [RANK // 2 * 4 + 1])
    tensor = gpu([RANK])
    dist.all_reduce(tensor, group=mesh.get_group("dp"))
    same(tensor, [sum(r for r in RANKS if r % 2 == RANK % 2)])


@part
def gloo_beside_it():
    group = dist.new_group(backend="gloo")
    on_host = torch.tensor([RANK + 1.0])
    dist.all_reduce(on_host, group=group)
    same(on_host, [sum(RANKS) + WORLD])
    dist.barrier(group)
    objects = [None] * WORLD
    dist.all_gather_object(objects, {"rank": RANK, "text": "x" * RANK}, group=group)
    assert objects == [{"rank": r, "text": "x" * r} for r in RANKS]
    tensor = gpu([RANK])
    dist.all_reduce(tensor, group=group)  # gloo copies it to the host
    same(tensor, [sum(RANKS)])
    dist.monitored_barrier(group)


# --- Objects, as bytes on the GPU --------------------------------------------------------------------


@part
def objects_of_one_size():
    got = [None] * WORLD
    dist.all_gather_object(got, {"rank": RANK})
    assert got == [{"rank": r} for r in RANKS], got


@part
def objects_of_different_sizes():
    got = [None] * WORLD
    dist.all_gather_object(got, {"rank": RANK, "text": "x" * 10 * RANK})
    assert got == [{"rank": r, "text": "x" * 10 * r} for r in RANKS], got


@part
def gathered_objects():
    got = [None] * WORLD if RANK == 0 else None
    dist.gather_object("x" * 10 * RANK, got)
    assert RANK or got == ["x" * 10 * r for r in RANKS], got


@part
def broadcast_objects():
    values = [{"a": 1}, "text", 3.5] if RANK == 0 else [None] * 3
    dist.broadcast_object_list(values, 0)
    assert values == [{"a": 1}, "text", 3.5], values


@part
def scattered_objects():
    got = [None]
    dist.scatter_object_list(got, [f"for {r}" * (r + 1) for r in RANKS] if RANK == 0 else None)
    assert got == [f"for {RANK}" * (RANK + 1)], got


@part
def sent_objects():
    if RANK == 0:
        dist.send_object_list(["text", 5], 1)
    elif RANK == 1:
        got = [None, None]
        dist.recv_object_list(got, 0)
        assert got == ["text", 5], got


# --- Graphs ---------------------------------------------------------------------------------------


@part
def graphs():
    tensor, source = gpu([0.0] * 4), gpu([RANK + 1.0] * 4)
    dist.all_reduce(tensor)  # makes the communicator
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tensor.copy_(source)
        dist.all_reduce(tensor)
    for i in range(3):
        source.copy_(torch.tensor([RANK + 1.0 + i] * 4))
        graph.replay()
        torch.cuda.synchronize()
        same(tensor, [sum(r + 1.0 + i for r in RANKS)] * 4)
    # Several collectives, of which two run on another stream.
    out, piece = gpu([0.0] * WORLD), gpu([RANK * 1.0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first = dist.all_gather_into_tensor(out, piece, async_op=True)
        first.wait()
        dist.all_reduce(out)
        dist.broadcast(tensor, 0)
    graph.replay()
    graph.replay()
    same(out, [WORLD * r for r in RANKS])
    graph.reset()
