#!/usr/bin/env python3
"""Small things of PyTorch that read and write as they may; with "beyond", a kernel that does not."""

import os
import sys

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kernels"))

from gpu import Gpu  # noqa: E402

SOURCE = """
extern "C" __global__ void beyond(const float* from, float* sum, int n) {
  float all = 0;
  for (int i = 0; i <= n; ++i) all += from[i];
  *sum = all;
}
"""


def train():
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.LayerNorm(512), nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    images, labels = torch.randn(8, 3, 16, 16, device="cuda"), torch.randint(0, 10, (8,), device="cuda")
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


def attend():
    with torch.autocast("cuda", torch.bfloat16):
        q = torch.randn(2, 4, 64, 32, device="cuda", requires_grad=True)
        torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    return q.grad.abs().sum().item()


def choose():
    numbers = torch.randn(5000, device="cuda")
    tokens = torch.randint(0, 100, (4, 7), device="cuda")
    embedding = torch.nn.Embedding(100, 32).cuda()
    embedding(tokens).sum().backward()
    return (numbers.sort().values[0].item(), numbers.topk(5).values.tolist(), torch.unique(tokens).numel(),
            torch.nonzero(tokens > 50).shape, torch.multinomial(torch.rand(50, device="cuda"), 3).shape,
            (torch.rand(33, 77, device="cuda") @ torch.rand(77, 55, device="cuda")).sum().item())


def beyond():
    tensor = torch.ones(1000, device="cuda")
    total = torch.zeros(1, device="cuda")
    module = Gpu().compile(SOURCE)
    module.launch("beyond", 1, 1, np.uint64(tensor.data_ptr()), np.uint64(total.data_ptr()), np.int32(1000))
    print(total.item())


def main():
    if sys.argv[1:] == ["beyond"]:
        beyond()
        return
    train()
    print(attend(), choose())


if __name__ == "__main__":
    main()
