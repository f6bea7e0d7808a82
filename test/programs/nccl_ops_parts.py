"""What the parts of nccl_ops.py have in common: who they are, and how values are compared."""

import os

import torch

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
RANKS = range(WORLD)
DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
PARTS = {}


def part(function):
    PARTS[function.__name__] = function
    return function


def gpu(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).to(DEVICE)


def same(tensor, values):
    """Whether `tensor` has these values, whatever its type."""
    got = tensor.cpu()
    expected = torch.tensor(values, dtype=got.dtype)
    assert torch.equal(got, expected), f"rank {RANK}: got {got.tolist()}, expected {expected.tolist()}"
