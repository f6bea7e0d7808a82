#!/usr/bin/env python3
"""Times matrix products, copies, streams and attention with CUDA events, as microbenchmarks do; prints
JSON: TFLOP/s and TB/s.

usage: microbench.py
"""

import json

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

results = {}


def seconds(function, repeats=10):
    """Of one call, warm."""
    for _ in range(2):
        function()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeats):
        function()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / repeats


def matmul(name, m, n, k, dtype, tf32=False):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a = torch.empty(m, k, device="cuda", dtype=dtype)
    b = torch.empty(k, n, device="cuda", dtype=dtype)
    results[name] = 2 * m * n * k / seconds(lambda: torch.mm(a, b)) / 1e12


for size in (1024, 2048, 4096, 8192, 16384):
    matmul(f"fp16 {size}^3", size, size, size, torch.float16)
matmul("bf16 8192^3", 8192, 8192, 8192, torch.bfloat16)
matmul("tf32 8192^3", 8192, 8192, 8192, torch.float32, tf32=True)
matmul("fp32 8192^3", 8192, 8192, 8192, torch.float32)
matmul("bf16 1024x10240x5120", 1024, 10240, 5120, torch.bfloat16)
matmul("bf16 2048x2048x13312", 2048, 2048, 13312, torch.bfloat16)
matmul("fp16 6144x12288x12288", 6144, 12288, 12288, torch.float16)

matmul("fp16 1024x2145x1024", 1024, 2145, 1024, torch.float16)
matmul("fp16 802816x192x768", 802816, 192, 768, torch.float16)
# SuperBench's size of products.
matmul("bf16 16384^3", 16384, 16384, 16384, torch.bfloat16)
matmul("tf32 16384^3", 16384, 16384, 16384, torch.float32, tf32=True)
matmul("fp32 16384^3", 16384, 16384, 16384, torch.float32)
matmul("fp64 16384^3", 16384, 16384, 16384, torch.float64)
if torch.cuda.get_device_capability() >= (9, 0):
    one = torch.ones((), device="cuda")
    for size in (1024, 2048, 4096, 8192, 16384, 32768):
        a = torch.empty(size, size, device="cuda", dtype=torch.bfloat16).to(torch.float8_e4m3fn)
        b = torch.empty(size, size, device="cuda", dtype=torch.bfloat16).to(torch.float8_e4m3fn).t()
        results[f"fp8 {size}^3"] = 2 * size ** 3 / 1e12 / seconds(
            lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16))
    del a, b

pinned = torch.empty(1 << 28, dtype=torch.uint8).pin_memory()
there = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
results["host to device"] = pinned.nbytes / 1e12 / seconds(
    lambda: there.copy_(pinned, non_blocking=True))
results["device to host"] = pinned.nbytes / 1e12 / seconds(
    lambda: pinned.copy_(there, non_blocking=True))
del pinned, there
x = torch.empty(1 << 28, device="cuda")
y = torch.empty_like(x)
results["copy"] = 2 * x.nbytes / seconds(lambda: y.copy_(x)) / 1e12
results["fp32 add"] = 2 * x.nbytes / seconds(lambda: torch.add(x, 1, out=y)) / 1e12
# 160 MB, as CUDA's p2pBandwidthLatencyTest copies within a GPU.
x = torch.empty(40_000_000, device="cuda", dtype=torch.int32)
y = torch.empty_like(x)
results["copy of 160 MB"] = 2 * x.nbytes / seconds(lambda: y.copy_(x)) / 1e12
# BabelStream's five, and its size.
x, y, z = (torch.empty(1 << 25, device="cuda", dtype=torch.float64) for _ in range(3))
for name, arrays, call in (
        ("copy", 2, lambda: z.copy_(x)), ("mul", 2, lambda: torch.mul(z, 0.4, out=y)),
        ("add", 3, lambda: torch.add(x, y, out=z)),
        ("triad", 3, lambda: torch.add(y, z, alpha=0.4, out=x)), ("dot", 2, lambda: torch.dot(x, y))):
    results["stream " + name] = arrays * x.nbytes / seconds(call) / 1e12
del x, y, z


def attention(width, batch, heads, length):
    shape = (batch, heads, length, width)
    q, k, v = (torch.empty(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
               for _ in range(3))
    flops = 4 * batch * heads * length * length * width
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        results[f"attention {width} {length} forward"] = flops / 1e12 / seconds(
            lambda: functional.scaled_dot_product_attention(q, k, v))
        out = functional.scaled_dot_product_attention(q, k, v)
        results[f"attention {width} {length} backward"] = 2.5 * flops / 1e12 / seconds(
            lambda: torch.autograd.grad(out, (q, k, v), out, retain_graph=True))


def eager_attention(width, batch, heads, length):
    """Product, softmax, product, with all scores in memory."""
    q, k, v = (torch.empty(batch * heads, length, width, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    scores = torch.empty(batch * heads, length, length, device="cuda", dtype=torch.bfloat16)

    def forward():
        weights = torch.baddbmm(scores, q, k.transpose(1, 2), beta=0, alpha=width ** -0.5)
        return torch.bmm(torch.softmax(weights, dim=-1), v)

    results[f"eager attention {width} {length} forward"] = (
        4 * batch * heads * length * length * width / 1e12 / seconds(forward))


attention(64, 2, 32, 8192)
attention(128, 2, 16, 8192)
for batch, length in ((32, 512), (16, 1024), (8, 2048), (4, 4096)):
    attention(64, batch, 32, length)
eager_attention(64, 2, 32, 8192)
eager_attention(128, 2, 16, 8192)
eager_attention(64, 8, 32, 2048)
print(json.dumps(results))
