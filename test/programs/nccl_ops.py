#!/usr/bin/env python3
"""Every collective of torch.distributed over NCCL, with the values that must result.

    torchrun --standalone --nproc-per-node 4 nccl_ops.py [PART...]

Values come from the host and are compared on the host: nothing here depends on what a GPU computes.
Parts are in nccl_ops_*.py.
"""

import sys
import traceback

import nccl_ops_tensors  # noqa: F401: its parts, in this order
import nccl_ops_groups  # noqa: F401, I001
import torch
import torch.distributed as dist
from nccl_ops_parts import DEVICE, PARTS, RANK, WORLD


def main():
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)
    assert (dist.get_rank(), dist.get_world_size()) == (RANK, WORLD)
    failed = []
    for name in sys.argv[1:] or PARTS:
        try:
            PARTS[name]()
        except Exception:
            failed.append(name)
            print(f"rank {RANK}: FAILED {name}\n{traceback.format_exc()}", flush=True)
    assert not failed, failed
    dist.barrier()
    torch.cuda.synchronize()
    dist.destroy_process_group()
    print(f"rank {RANK}: PASSED nccl_ops", flush=True)


if __name__ == "__main__":
    main()
