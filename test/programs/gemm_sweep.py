#!/usr/bin/env python3
"""Matrix products of every type, layout, batch and epilogue, one by one. Prints a JSON object of
their names and FLOPs.

Between products it sleeps for simulated seconds, by which a timeline tells them apart.

usage: gemm_sweep.py
"""

import json
import time

import torch
from torch.nn import functional

expected = {}
SIZES = [(128, 128, 128), (256, 512, 1024), (1000, 1536, 776), (4096, 4096, 1024),
         (64, 8192, 2048), (8192, 64, 512), (2048, 2048, 8192), (4104, 1032, 520)]
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32,
         "tf32": torch.float32, "fp64": torch.float64}


def product(name, flops, function):
    function()
    torch.cuda.synchronize()
    time.sleep(5)
    expected[name] = flops
    function()
    torch.cuda.synchronize()
    time.sleep(5)


def zeros(rows, columns, dtype, transposed):
    return (torch.zeros(columns, rows, device="cuda", dtype=dtype).t() if transposed
            else torch.zeros(rows, columns, device="cuda", dtype=dtype))


for kind, dtype in TYPES.items():
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    for m, n, k in SIZES:
        for layout in ("nn", "nt", "tn"):
            a, b = zeros(m, k, dtype, layout[0] == "t"), zeros(k, n, dtype, layout[1] == "t")
            product(f"{kind} {layout} {m}x{n}x{k}", 2 * m * n * k, lambda: a @ b)
    for batch, m, n, k in ((96, 1024, 1024, 64), (48, 512, 64, 512), (7, 200, 328, 136)):
        a = torch.zeros(batch, m, k, device="cuda", dtype=dtype)
        b = torch.zeros(batch, k, n, device="cuda", dtype=dtype)
        product(f"{kind} {batch} of {m}x{n}x{k}", 2 * batch * m * n * k, lambda: torch.bmm(a, b))
        b = b.transpose(1, 2).contiguous().transpose(1, 2)
        product(f"{kind} {batch} of {m}x{n}x{k}, transposed", 2 * batch * m * n * k,
                lambda: torch.bmm(a, b))
    x, w = zeros(2048, 1024, dtype, False), zeros(4096, 1024, dtype, False)
    bias = torch.zeros(4096, device="cuda", dtype=dtype)
    product(f"{kind} linear with bias", 2 * 2048 * 1024 * 4096, lambda: functional.linear(x, w, bias))
    product(f"{kind} addmm with gelu", 2 * 2048 * 1024 * 4096,
            lambda: torch._addmm_activation(bias, x, w.t(), use_gelu=True))
    # A product with a vector, as decoding does.
    for rows in (1, 4, 16):
        x = zeros(rows, 4096, dtype, False)
        w = zeros(11008, 4096, dtype, False)
        product(f"{kind} {rows} tokens", 2 * rows * 4096 * 11008, lambda: functional.linear(x, w))
x = torch.zeros(4096, 4096, device="cuda", dtype=torch.int8)
product("int8", 2 * 4096 ** 3, lambda: torch._int_mm(x, x.t()))
if torch.cuda.get_device_capability() >= (9, 0):
    one = torch.ones((), device="cuda")
    for m, n, k in ((4096, 4096, 4096), (512, 8192, 1024), (2048, 1024, 8192)):
        a = zeros(m, k, torch.float8_e4m3fn, False)
        b = zeros(k, n, torch.float8_e4m3fn, True)
        product(f"fp8 {m}x{n}x{k}", 2 * m * n * k,
                lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16))
print(json.dumps(expected))
