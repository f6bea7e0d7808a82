#!/usr/bin/env python3
"""Launches kernels from wherever PyTorch gets them: its own library, cuBLAS, cuDNN, NVRTC
(a jiterator function), a CUDA graph, and Triton (torch.compile).

usage: naming.py
"""

import torch


def added(x, y):
    return torch.relu(x @ y) * 2 + x.sin()


convolution = torch.nn.Conv2d(3, 64, 7, 2, 3).cuda()
convolution(torch.randn(8, 3, 224, 224, device="cuda")).sum().backward()

matrix = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16)
torch.mm(matrix, matrix)

jitted = torch.cuda.jiterator._create_jit_fn(  # pylint: disable=protected-access
    "template <typename T> T compiled_by_nvrtc(T x, T y) { return x * y + x; }")
vector = torch.rand(1000, device="cuda")
jitted(vector, vector)

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    torch.softmax(vector, 0)
for _ in range(3):
    graph.replay()

square = torch.randn(256, 256, device="cuda")
torch.compile(added)(square, square)
torch.cuda.synchronize()
