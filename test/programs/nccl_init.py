#!/usr/bin/env python3
"""Two processes with a GPU each make NCCL communicators, by torch.distributed and by NCCL's own functions."""

import ctypes
import importlib.util
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORLD_SIZE = 2


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def check(nccl, status):
    assert status == 0, nccl.ncclGetErrorString(status).decode()


def own_communicator(rank, store):
    folder = importlib.util.find_spec("nvidia.nccl").submodule_search_locations[0]
    nccl = ctypes.CDLL(os.path.join(folder, "lib", "libnccl.so.2"))
    nccl.ncclGetErrorString.restype = ctypes.c_char_p
    version, count, communicator = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    check(nccl, nccl.ncclGetVersion(ctypes.byref(version)))
    unique_id = UniqueId()
    if rank == 0:
        check(nccl, nccl.ncclGetUniqueId(ctypes.byref(unique_id)))
        store.set("id", bytes(unique_id))
    ctypes.memmove(ctypes.byref(unique_id), store.get("id"), ctypes.sizeof(unique_id))
    check(nccl, nccl.ncclCommInitRank(ctypes.byref(communicator), WORLD_SIZE, unique_id, rank))
    check(nccl, nccl.ncclCommCount(communicator, ctypes.byref(count)))
    assert count.value == WORLD_SIZE
    check(nccl, nccl.ncclCommCuDevice(communicator, ctypes.byref(count)))
    assert count.value == rank
    check(nccl, nccl.ncclCommFinalize(communicator))
    check(nccl, nccl.ncclCommDestroy(communicator))
    return version.value


def run(rank, folder):
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    assert torch.cuda.can_device_access_peer(rank, 1 - rank)
    store = dist.FileStore(os.path.join(folder, "store"), WORLD_SIZE)
    version = own_communicator(rank, dist.PrefixStore("own", store))

    # With a device, the process group makes its communicator at once.
    dist.init_process_group("nccl", store=store, rank=rank, world_size=WORLD_SIZE, device_id=device)
    assert dist.get_world_size() == WORLD_SIZE and dist.get_backend() == "nccl"
    tensor = torch.ones(1000, device=device)
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    torch.cuda.synchronize()
    dist.destroy_process_group()
    print(f"rank {rank} of {WORLD_SIZE}: NCCL {version}, {torch.cuda.get_device_name(device)}", flush=True)


def main():
    assert torch.cuda.device_count() >= WORLD_SIZE
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, args=(folder,), nprocs=WORLD_SIZE)
    print("PASS nccl_init")


if __name__ == "__main__":
    main()
