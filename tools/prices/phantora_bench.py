#!/usr/bin/env python3
"""Measures a GPU for Phantora. Needs PyTorch and nothing else; copy this file anywhere.

  phantora_bench.py measure -o FILE    times operations on this machine's GPU, the most important first,
                                       for --minutes; FILE gets a JSON object per line. Run again, it goes
                                       on where it was.
  phantora_bench.py list               what it would measure
  phantora_bench.py rows FILE ...      what became of it: rows for profiles/data/GPU (needs Phantora, and
                                       tools/prices/bench_rows.py beside this file; see there)

The first line of FILE says what was measured: GPU, driver, clocks, versions. Then, per operation:
  op, parameters   which one
  l2               warm: the same data again and again; cold: after the cache was filled with other data
  time_us          of the operation on the GPU, by CUDA events: median of `samples` means of `inner` calls
                   queued behind other work. Of host calls (`host`), by the host's clock
  error            relative: half of what lies between the 10th and 90th of 100 samples, or the resolution
                   of events
  rejected         samples further from the median than five deviations
  kernels          name and time_us of each kernel in order, where PyTorch's profiler sees kernels
  sm_mhz           the SMs' clock right after
An operation that cannot be run has `skipped`, a reason, instead.
"""

import argparse
import ctypes
import datetime
import functools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

VERSION = 1
HOT = ("gemm", "attention", "convolution")  # families that reach the power limit
OPS = {}  # by key, in the order of definition


class Op:
    """One operation. `make` gets the parameters and returns a function that submits it once. With
    `host`, it returns the seconds that each of some calls took instead."""

    def __init__(self, family, name, level, make, parameters, l2="warm", host=False):
        self.family, self.name, self.level, self.make = family, name, level, make
        self.parameters, self.l2, self.host = parameters, l2, host

    @property
    def key(self):
        return key_of({"op": self.name, "parameters": self.parameters, "l2": self.l2})


def key_of(line):
    return json.dumps([line["op"], line["parameters"], line["l2"]], sort_keys=True)


def define(family, name, level, make, l2="warm", host=False, **parameters):
    """Level 0 is measured before 1, before 2. What is already there keeps its level."""
    op = Op(family, name, level, make, parameters, l2, host)
    OPS.setdefault(op.key, op)


# --- Operations -----------------------------------------------------------------------

def torch():
    import torch as module  # pylint: disable=import-outside-toplevel
    return module


def dtype_of(name):
    t = torch()
    return {"bf16": t.bfloat16, "fp16": t.float16, "fp32": t.float32, "tf32": t.float32,
            "fp64": t.float64, "int8": t.int8, "int64": t.int64, "fp8": getattr(t, "float8_e4m3fn", None)}[name]


def random(*shape, dtype="fp32", grad=False):
    """Random data: what power a product takes depends on its bits."""
    t = torch()
    if dtype == "int8":
        return t.randint(-8, 8, shape, device="cuda", dtype=t.int8)
    wide = t.randn(*shape, device="cuda", dtype=t.bfloat16 if dtype == "fp8" else dtype_of(dtype))
    return wide.to(dtype_of(dtype)).requires_grad_(grad)


def indices(count, below):
    return torch().randint(0, below, (count,), device="cuda")


def mm(dtype, m, n, k, layout):
    t = torch()
    t.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    a = random(k, m, dtype=dtype).t() if layout[0] == "t" else random(m, k, dtype=dtype)
    b = random(n, k, dtype=dtype).t() if layout[1] == "t" else random(k, n, dtype=dtype)
    if dtype == "fp8":
        one = t.ones((), device="cuda")
        return lambda: t._scaled_mm(a, b, one, one, out_dtype=t.bfloat16)
    if dtype == "int8":
        return lambda: t._int_mm(a, b)
    return lambda: t.mm(a, b)


def bmm(dtype, batch, m, n, k):
    a, b = random(batch, m, k, dtype=dtype), random(batch, k, n, dtype=dtype)
    return lambda: torch().bmm(a, b)


def sdpa(dtype, batch, heads, sequence, width, causal, direction):
    t = torch()
    from torch.nn.attention import SDPBackend, sdpa_kernel  # pylint: disable=import-outside-toplevel
    q, k, v = (random(batch, heads, sequence, width, dtype=dtype, grad=direction == "backward")
               for _ in range(3))

    def forward():
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    if direction == "forward":
        return forward
    out = forward()
    gradient = t.randn_like(out)  # with its strides, so that nothing has to be copied
    return lambda: t.autograd.grad(out, (q, k, v), gradient, retain_graph=True)


def with_backward(direction, inputs, forward):
    if direction == "forward":
        return forward
    t = torch()
    out = forward()
    gradient = t.randn_like(out)
    return lambda: t.autograd.grad(out, inputs, gradient, retain_graph=True)


def elementwise(what, dtype, numel):
    t = torch()
    a, b = random(numel, dtype=dtype), random(numel, dtype=dtype)
    out = t.empty_like(a)
    other = t.empty(numel, device="cuda", dtype=t.float32 if dtype == "bf16" else t.bfloat16)
    mask = a > 0
    return {"add": lambda: t.add(a, b, out=out), "scale": lambda: t.mul(a, 2.0, out=out),
            "gelu": lambda: t.nn.functional.gelu(a), "silu": lambda: t.nn.functional.silu(a),
            "exp": lambda: t.exp(a, out=out), "convert": lambda: other.copy_(a),
            "where": lambda: t.where(mask, a, b), "fill": lambda: out.fill_(1.0),
            "dropout": lambda: t.native_dropout(a, 0.1, True), "uniform": lambda: out.uniform_(),
            "normal": lambda: out.normal_(), "add_mixed": lambda: t.add(a, other),
            "gelu_backward": lambda: t.ops.aten.gelu_backward(a, b),
            "silu_backward": lambda: t.ops.aten.silu_backward(a, b)}[what]


def reduction(what, dtype, rows, columns):
    t = torch()
    x = random(rows, columns, dtype=dtype)
    return {"sum": x.sum, "sum_rows": lambda: x.sum(1), "sum_columns": lambda: x.sum(0),
            "amax_rows": lambda: x.amax(1), "argmax_rows": lambda: x.argmax(1),
            "mean_rows": lambda: x.mean(1), "norm": lambda: t.linalg.vector_norm(x)}[what]


def rows(what, dtype, rows, columns, direction="forward"):  # pylint: disable=redefined-outer-name
    t = torch()
    f = t.nn.functional
    back = direction == "backward"
    x = random(rows, columns, dtype=dtype, grad=back)
    weight = random(columns, dtype=dtype, grad=back)
    if what == "cross_entropy":
        target = indices(rows, columns)
        return with_backward(direction, (x,), lambda: f.cross_entropy(x, target))
    return with_backward(direction, (x, weight) if "norm" in what else (x,), {
        "layer_norm": lambda: f.layer_norm(x, (columns,), weight, weight),
        "rms_norm": lambda: f.rms_norm(x, (columns,), weight),
        "softmax": lambda: t.softmax(x, -1), "log_softmax": lambda: t.log_softmax(x, -1)}[what])


def embedding(dtype, tokens, vocabulary, width, direction):
    table, at = random(vocabulary, width, dtype=dtype, grad=True), indices(tokens, vocabulary)
    return with_backward(direction, (table,), lambda: torch().nn.functional.embedding(at, table))


def optimizer(what, dtype, tensors, numel):
    t = torch()
    parameters = [random(numel, dtype=dtype, grad=True) for _ in range(tensors)]
    for parameter in parameters:
        parameter.grad = random(numel, dtype=dtype)
    kind, _, how = what.partition("_")
    if kind == "clip":
        return lambda: t.nn.utils.clip_grad_norm_(parameters, 1.0)
    made = {"adamw": t.optim.AdamW, "sgd": t.optim.SGD}[kind](parameters, lr=1e-3, **{how: True})
    return made.step


def layout(what, dtype, rows, columns):  # pylint: disable=redefined-outer-name
    t = torch()
    a, b = random(rows, columns, dtype=dtype), random(rows, columns, dtype=dtype)
    heads = a.view(rows, columns // 64, 64)
    return {"cat": lambda: t.cat([a, b]), "cat_columns": lambda: t.cat([a, b], 1),
            "transpose": lambda: a.t().contiguous(), "heads": lambda: heads.transpose(0, 1).contiguous(),
            "stack": lambda: t.stack([a, b]),
            "cat_strided": lambda: t.cat([heads.transpose(0, 1)] * 3, 2)}[what]


def index(what, dtype, rows, columns):  # pylint: disable=redefined-outer-name
    x, at = random(rows, columns, dtype=dtype), indices(rows, rows)
    t = torch()
    return {"index_select": lambda: x.index_select(0, at), "topk": lambda: x.topk(8),
            "cumsum": lambda: t.cumsum(x, 1), "sort": lambda: x.sort(1)}[what]


def conv(dtype, batch, channels, size, filters, kernel, stride, direction):
    t = torch()
    t.backends.cudnn.allow_tf32 = dtype == "tf32"
    x = random(batch, channels, size, size, dtype=dtype)
    w = random(filters, channels, kernel, kernel, dtype=dtype)
    x, w = (v.to(memory_format=t.channels_last).requires_grad_(direction == "backward") for v in (x, w))
    return with_backward(direction, (x, w), lambda: t.nn.functional.conv2d(x, w, None, stride, kernel // 2))


def image(what, dtype, batch, channels, size):
    t = torch()
    x = random(batch, channels, size, size, dtype=dtype).to(memory_format=t.channels_last)
    norm = t.nn.BatchNorm2d(channels).cuda()
    return {"batch_norm": lambda: norm(x), "max_pool": lambda: t.nn.functional.max_pool2d(x, 3, 2, 1),
            "average_pool": lambda: t.nn.functional.adaptive_avg_pool2d(x, 1)}[what]


def copy(what, bytes):  # pylint: disable=redefined-builtin
    """What copy engines do, timed by events."""
    t = torch()
    there = t.empty(bytes, dtype=t.uint8, device="cuda")
    here = t.zeros(bytes, dtype=t.uint8, pin_memory=what != "copy_d2d" and what != "memset")
    another = t.empty_like(there) if what == "copy_d2d" else None
    return {"copy_h2d_pinned": lambda: there.copy_(here, non_blocking=True),
            "copy_d2h_pinned": lambda: here.copy_(there, non_blocking=True),
            "copy_d2d": lambda: another.copy_(there), "memset": there.zero_}[what]


def define_all():
    """Everything there is, each family's own order."""
    products = [(size,) * 3 for size in (4096, 8192, 2048, 1024, 512)]
    for m, n, k in products:
        define("gemm", "mm", 0, mm, dtype="bf16", m=m, n=n, k=k, layout="nn")
    for dtype in ("fp16", "tf32", "fp8", "fp32", "int8"):
        for size in (4096, 8192, 1024):
            define("gemm", "mm", 0, mm, dtype=dtype, m=size, n=size, k=size,
                   layout="nt" if dtype in ("fp8", "int8") else "nn")
    for causal in (False, True):
        for width, heads in ((64, 32), (128, 16)):
            for sequence in (2048, 8192, 512, 1024, 4096, 16384):
                for direction in ("forward", "backward"):
                    define("attention", "sdpa", 0 if not causal and sequence in (2048, 8192) else 1, sdpa,
                           dtype="bf16", batch=16384 // sequence, heads=heads, sequence=sequence,
                           width=width, causal=causal, direction=direction)
    for what in ("add", "gelu", "convert", "scale", "silu", "exp", "where", "fill", "dropout", "uniform",
                 "normal", "gelu_backward", "silu_backward", "add_mixed"):
        for dtype in ("bf16", "fp32"):
            for power in (26, 22, 18, 14, 28, 24, 20, 16, 12):
                level = 0 if what in ("add", "gelu", "convert") and power in (26, 22, 18) else (
                    1 if power % 4 == 2 else 2)
                define("elementwise", what, level, functools.partial(elementwise, what),
                       dtype=dtype, numel=1 << power)
    for what in ("sum_rows", "sum_columns", "sum", "norm", "amax_rows", "argmax_rows", "mean_rows"):
        for dtype in ("bf16", "fp32"):
            for n, width in ((8192, 4096), (4096, 1024), (32768, 8192), (512, 512), (64, 65536)):
                define("reduction", what, 0 if (n, width) == (8192, 4096) and dtype == "bf16" else 1,
                       functools.partial(reduction, what), dtype=dtype, rows=n, columns=width)
    for what in ("layer_norm", "softmax", "rms_norm", "log_softmax"):
        for direction in ("forward", "backward"):
            for dtype in ("bf16", "fp32"):
                for n, width in ((8192, 4096), (8192, 1024), (16384, 768), (2048, 8192), (512, 4096),
                                 (8192, 128), (1024, 50304)):
                    define("rows", what, 0 if n == 8192 and width > 128 and dtype == "bf16" else 1,
                           functools.partial(rows, what), dtype=dtype, rows=n, columns=width,
                           direction=direction)
    for direction in ("forward", "backward"):
        for n, width in ((8192, 50304), (8192, 128256), (8192, 32000), (1024, 50304)):
            for dtype in ("bf16", "fp32"):
                define("rows", "cross_entropy", 0 if width == 50304 and dtype == "bf16" else 1,
                       functools.partial(rows, "cross_entropy"), dtype=dtype, rows=n, columns=width,
                       direction=direction)
        for tokens, vocabulary, width in ((8192, 50304, 4096), (8192, 50304, 768), (16384, 128256, 4096)):
            define("index", "embedding", 0 if width == 768 else 1, embedding, dtype="bf16", tokens=tokens,
                   vocabulary=vocabulary, width=width, direction=direction)
    for what in ("index_select", "topk", "cumsum", "sort"):
        for n, width in ((8192, 4096), (1024, 1024)):
            define("index", what, 1, functools.partial(index, what), dtype="bf16", rows=n,
                   columns=width)
    for what in ("adamw_fused", "adamw_foreach", "sgd_fused", "sgd_foreach", "clip"):
        for tensors, numel in ((16, 1 << 20), (64, 1 << 22), (148, 1 << 16)):
            define("optimizer", what, 0 if tensors == 16 else 1, functools.partial(optimizer, what),
                   dtype="fp32", tensors=tensors, numel=numel)
    for what in ("transpose", "cat", "heads", "cat_columns", "stack", "cat_strided"):
        for dtype in ("bf16", "fp32"):
            for n, width in ((8192, 4096), (1024, 1024), (32768, 4096)):
                define("layout", what, 0 if n == 8192 and dtype == "bf16" else 1,
                       functools.partial(layout, what), dtype=dtype, rows=n, columns=width)
    # channels, size, filters, kernel, stride: ResNet-50's, the first of each stage first.
    shapes = ((64, 56, 64, 3, 1), (512, 14, 256, 1, 1), (128, 28, 128, 3, 1), (256, 14, 256, 3, 1),
              (512, 7, 512, 3, 1), (3, 224, 64, 7, 2), (64, 56, 64, 1, 1), (64, 56, 256, 1, 1),
              (256, 56, 64, 1, 1), (256, 56, 128, 1, 1), (128, 56, 128, 3, 2), (128, 28, 512, 1, 1),
              (256, 56, 512, 1, 2), (512, 28, 128, 1, 1), (512, 28, 256, 1, 1), (256, 28, 256, 3, 2),
              (256, 14, 1024, 1, 1), (512, 28, 1024, 1, 2), (1024, 14, 256, 1, 1), (1024, 14, 512, 1, 1),
              (512, 14, 512, 3, 2), (512, 7, 2048, 1, 1), (1024, 14, 2048, 1, 2), (2048, 7, 512, 1, 1))
    for dtype in ("bf16", "tf32", "fp16"):
        for number, (channels, size, filters, kernel, stride) in enumerate(shapes):
            for direction in ("forward", "backward"):
                define("convolution", "conv2d", 0 if number < 6 and dtype == "bf16" else 1, conv, dtype=dtype,
                       batch=64, channels=channels, size=size, filters=filters, kernel=kernel,
                       stride=stride, direction=direction)
    for what in ("batch_norm", "max_pool", "average_pool"):
        for channels, size in ((64, 112), (256, 56), (2048, 7)):
            define("image", what, 1, functools.partial(image, what), dtype="bf16", batch=64,
                   channels=channels, size=size)
    define_host()
    # Products that are not cubes: of a linear layer and its gradients, then of inference.
    linear = ((4096, 4096), (768, 768), (14336, 4096), (3072, 768), (50304, 768), (2304, 768), (768, 3072),
              (4096, 14336), (6144, 4096), (128256, 4096))
    for tokens in (16384, 4096):
        for n, k in linear:
            define("gemm", "mm", 1, mm, dtype="bf16", m=tokens, n=n, k=k, layout="nt")
            define("gemm", "mm", 1, mm, dtype="bf16", m=tokens, n=k, k=n, layout="nn")
            define("gemm", "mm", 1, mm, dtype="bf16", m=n, n=k, k=tokens, layout="tn")
    for tokens in (1, 16, 128, 1024):
        for n, k in linear:
            define("gemm", "mm", 1, mm, dtype="bf16", m=tokens, n=n, k=k, layout="nt")
    for dtype in ("bf16", "fp16", "tf32", "fp8", "fp32", "int8", "fp64"):
        for size in (128, 256, 512, 2048, 16384):
            define("gemm", "mm", 1 if dtype != "fp64" else 2, mm, dtype=dtype, m=size, n=size, k=size,
                   layout="nt" if dtype in ("fp8", "int8") else "nn")
    for m in (128, 512, 2048, 8192, 16384):
        for n in (128, 512, 2048, 8192, 16384):
            for k in (128, 512, 2048, 8192, 16384):
                define("gemm", "mm", 2, mm, dtype="bf16", m=m, n=n, k=k, layout="nn")
    for batch, m, n, k in ((384, 1024, 1024, 64), (384, 1024, 64, 1024), (64, 512, 512, 512)):
        define("gemm", "bmm", 1, bmm, dtype="bf16", batch=batch, m=m, n=n, k=k)
    for op in [op for op in OPS.values() if op.level == 0 and op.family in (
            "elementwise", "reduction", "rows", "layout", "optimizer")]:
        define(op.family, op.name, 2, op.make, l2="cold", **op.parameters)


# --- What calls cost the host -----------------------------------------------------------

def define_host():
    sizes = [4 << (2 * step) for step in range(15)]  # 4 B to 1 GiB
    for what in ("copy_h2d_pinned", "copy_d2h_pinned", "copy_d2d", "memset"):
        for size in sizes:
            define("copy", what, 0 if size in (4, 1 << 16, 1 << 24, 1 << 28) else 1,
                   functools.partial(copy, what), bytes=size)
    for what in ("h2d_pageable", "d2h_pageable", "h2d_pinned", "d2h_pinned"):
        for size in sizes:
            define("host", what, 0 if size in (4, 1 << 16, 1 << 24) else 1,
                   functools.partial(host_copy, what), host=True, bytes=size)
    for what in ("empty_call", "launch", "launch_and_synchronize", "event_record", "event_query",
                 "stream_synchronize_idle", "event_synchronize_done"):
        define("host", what, 0, functools.partial(host_call, what), host=True)
    for nodes in (1, 10, 100):
        define("host", "graph_launch", 0, graph_launch, host=True, nodes=nodes)
    for size in (4096, 1 << 20, 1 << 24, 1 << 28):
        for what in ("malloc", "free", "host_alloc"):
            define("host", what, 0 if size == 1 << 20 else 1, functools.partial(allocation, what),
                   host=True, bytes=size)
    for what in ("init", "context"):
        define("host", what, 0, functools.partial(start_up, what), host=True)


def driver():
    torch().cuda.synchronize()  # makes the context
    return ctypes.CDLL("libcuda.so.1")


def check(result):
    if result != 0:
        raise RuntimeError(f"the driver answers {result}")


def timed(call, repeats, calls=1):
    """Seconds of one call, from `repeats` samples of `calls` in a row."""
    call()
    samples = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        samples.append((time.perf_counter() - begin) / calls)
    return samples


PTX = b""".version 6.0
.target sm_50
.address_size 64
.visible .entry nothing() { ret; }
\0"""


def host_call(what):
    """Through ctypes, whose own time `empty_call` is."""
    cuda = driver()
    stream, event, module, function, version = (ctypes.c_void_p() for _ in range(5))
    check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    check(cuda.cuEventCreate(ctypes.byref(event), 0))
    check(cuda.cuModuleLoadData(ctypes.byref(module), PTX))
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"nothing"))
    arguments = (function, 1, 1, 1, 1, 1, 1, 0, stream, None, None)

    def launch():
        cuda.cuLaunchKernel(*arguments)

    def launch_and_synchronize():
        cuda.cuLaunchKernel(*arguments)
        cuda.cuStreamSynchronize(stream)

    check(cuda.cuEventRecord(event, stream))
    launch_and_synchronize()
    call = {"empty_call": lambda: cuda.cuDriverGetVersion(ctypes.byref(version)), "launch": launch,
            "launch_and_synchronize": launch_and_synchronize,
            "event_record": lambda: cuda.cuEventRecord(event, stream),
            "event_query": lambda: cuda.cuEventQuery(event),
            "stream_synchronize_idle": lambda: cuda.cuStreamSynchronize(stream),
            "event_synchronize_done": lambda: cuda.cuEventSynchronize(event)}[what]
    samples = []
    for _ in range(25):
        samples += timed(call, 1, 100)
        cuda.cuStreamSynchronize(stream)  # launches do not pile up
    return samples


def host_copy(what, bytes):  # pylint: disable=redefined-builtin
    t = torch()
    direction, _, kind = what.partition("_")
    there = t.empty(bytes, dtype=t.uint8, device="cuda")
    here = t.ones(bytes, dtype=t.uint8, pin_memory=kind == "pinned")
    cuda = driver()
    to, source = (there, here) if direction == "h2d" else (here, there)
    call = cuda.cuMemcpyHtoD_v2 if direction == "h2d" else cuda.cuMemcpyDtoH_v2
    addresses = ctypes.c_uint64(to.data_ptr()), ctypes.c_uint64(source.data_ptr()), ctypes.c_size_t(bytes)
    check(call(*addresses))
    return timed(lambda: call(*addresses), 25 if bytes < 1 << 26 else 7)


def graph_launch(nodes):
    t = torch()
    x, graph = t.zeros(1, device="cuda"), t.cuda.CUDAGraph()
    with t.cuda.graph(graph):
        for _ in range(nodes):
            x.add_(1)
    samples = []
    for _ in range(25):
        samples += timed(graph.replay, 1)
        t.cuda.synchronize()
    return samples


def allocation(what, bytes):  # pylint: disable=redefined-builtin
    cuda, address, samples = driver(), ctypes.c_uint64(), []
    allocate, free = ((cuda.cuMemHostAlloc, cuda.cuMemFreeHost) if what == "host_alloc" else
                      (cuda.cuMemAlloc_v2, cuda.cuMemFree_v2))
    arguments = [ctypes.byref(address), ctypes.c_size_t(bytes)] + ([0] if what == "host_alloc" else [])
    for _ in range(15):
        begin = time.perf_counter()
        check(allocate(*arguments))
        middle = time.perf_counter()
        check(free(address))
        samples.append(time.perf_counter() - middle if what == "free" else middle - begin)
    return samples


def start_up(what):
    """In processes of their own."""
    program = ("import ctypes, time; c = ctypes.CDLL('libcuda.so.1'); a = time.perf_counter(); "
               "assert c.cuInit(0) == 0; b = time.perf_counter(); x = ctypes.c_void_p(); "
               "assert c.cuDevicePrimaryCtxRetain(ctypes.byref(x), 0) == 0; "
               "print(b - a, time.perf_counter() - b)")
    return [float(subprocess.run([sys.executable, "-c", program], check=True, text=True, stdout=subprocess.PIPE,
                                 timeout=120).stdout.split()[what == "context"]) for _ in range(3)]


# --- Measuring --------------------------------------------------------------------------

def summary(samples, resolution):
    """Median and relative error of seconds; `resolution` in seconds."""
    median = statistics.median(samples)
    deviation = 1.4826 * statistics.median(abs(s - median) for s in samples)
    kept = sorted(s for s in samples if abs(s - median) <= max(5 * deviation, resolution))
    median = statistics.median(kept)
    spread = (kept[math.ceil(0.9 * len(kept)) - 1] - kept[int(0.1 * len(kept))]) / 2
    return {"time_us": round(median * 1e6, 4), "error": round(max(spread, resolution) / max(median, 1e-9), 4),
            "samples": len(samples), "rejected": len(samples) - len(kept)}


class Bench:
    """The GPU, and what is needed to time work on it."""

    RESOLUTION = 5e-7  # of CUDA events, seconds

    def __init__(self, profiler):
        t = torch()
        self.cuda = t.cuda
        properties = self.cuda.get_device_properties(0)
        self.busy = self.cuda.Stream()
        l2_bytes = getattr(properties, "L2_cache_size", 64 << 20)
        self.filler = t.empty(4 * l2_bytes, dtype=t.uint8, device="cuda")
        self.nvml = Nvml()
        # A profiler that sees kernels but not how long they take is of no use.
        self.profiler = profiler and any(k["time_us"] > 0 for k in self.kernels(self.filler.zero_))
        self.settle(mm("bf16", 4096, 4096, 4096, "nn"), 2)  # clocks rise from idle

    def header(self):
        t = torch()
        properties = self.cuda.get_device_properties(0)
        return {"phantora_bench": VERSION, "gpu": properties.name, "sms": properties.multi_processor_count,
                "memory_bytes": properties.total_memory,
                "compute_capability": f"{properties.major}.{properties.minor}",
                "driver": self.nvml.driver(), "cuda": t.version.cuda, "torch": t.__version__,
                "cudnn": t.backends.cudnn.version(), "kernels": "profiler" if self.profiler else "none",
                "max_sm_mhz": self.nvml.clock(1, True), "max_memory_mhz": self.nvml.clock(2, True),
                "power_limit_w": self.nvml.power_limit(),
                "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")}

    def kernels(self, function, repeats=5):
        """Name and time of each kernel of one call, in order; [] if that cannot be seen."""
        t = torch()
        try:
            with t.profiler.profile(activities=[t.profiler.ProfilerActivity.CUDA]) as profile:
                for _ in range(repeats):
                    function()
                self.cuda.synchronize()
            seen = sorted((event for event in profile.profiler.kineto_results.events()
                           if event.device_type() == t.autograd.DeviceType.CUDA
                           and not event.name().startswith(("Context Sync", "Event Sync", "Stream "))),
                          key=lambda event: event.start_ns())
        except (RuntimeError, AttributeError) as error:
            print(f"the profiler fails: {error}", file=sys.stderr)
            return []
        if not seen or len(seen) % repeats:
            return []
        calls = [seen[i:i + len(seen) // repeats] for i in range(0, len(seen), len(seen) // repeats)]
        if any([e.name() for e in call] != [e.name() for e in calls[0]] for call in calls):
            return []
        return [{"name": same[0].name(),
                 "time_us": statistics.median(e.duration_ns() for e in same) / 1e3} for same in zip(*calls)]

    def settle(self, function, seconds):
        """Keeps the GPU busy until its power has found the clock that lasts."""
        now = time.perf_counter()
        until, calls = now + seconds, 1
        while now < until:
            begin = now
            for _ in range(calls):
                function()
            self.cuda.synchronize()
            now = time.perf_counter()
            calls = max(1, min(100, int(0.05 * calls / max(now - begin, 1e-6))))

    def span(self, function, calls, before):
        """Seconds of a call, of `calls` queued behind what `before` submits."""
        begin, end = self.cuda.Event(enable_timing=True), self.cuda.Event(enable_timing=True)
        before()
        begin.record()
        for _ in range(calls):
            function()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / calls

    def time(self, function, cold, hot):
        for _ in range(3):
            function()
        self.cuda.synchronize()
        if hot:
            self.settle(function, 0.3)
        started = time.perf_counter()
        function()
        submitted = time.perf_counter() - started
        once = self.span(function, 1, lambda: None)
        inner = 1 if cold else max(1, min(50, math.ceil(3e-4 / max(once, 1e-6))))
        # The GPU is busy until everything is queued, else the host's time would be measured.
        cycles = int(min(0.05, 1.5 * inner * submitted + 2e-5) * 2e9)
        before = self.filler.zero_ if cold else lambda: self.cuda._sleep(cycles)
        samples, until = [], time.perf_counter() + 0.5
        while len(samples) < 7 or (len(samples) < 25 and time.perf_counter() < until):
            samples.append(self.span(function, inner, before))
        # An event begins when the work before it is over, and a kernel a little later.
        return {**summary(samples, self.RESOLUTION / inner), "inner": inner}

    def measure(self, op):
        """The line of one operation."""
        line = {"op": op.name, "family": op.family, "parameters": op.parameters, "l2": op.l2}
        try:
            function = op.make(**op.parameters)
            if op.host:
                return {**line, "host": True, **summary(function, 2.5e-8), "inner": 1}
            line |= self.time(function, op.l2 == "cold", op.family in HOT)
            if self.profiler and op.l2 == "warm":
                line["kernels"] = self.kernels(function)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError, KeyError, OSError,
                subprocess.SubprocessError) as error:
            return {**line, "skipped": str(error).strip().split("\n", maxsplit=1)[0][:200] or repr(error)}
        line["sm_mhz"] = self.nvml.clock(1, False)
        return line


class Nvml:
    """A few questions to NVML; None where it does not answer."""

    def __init__(self):
        self.device = ctypes.c_void_p()
        try:
            self.library = ctypes.CDLL("libnvidia-ml.so.1")
            uuid = str(getattr(torch().cuda.get_device_properties(0), "uuid", ""))
            found = self.library.nvmlInit_v2() == 0 and (
                (uuid and self.library.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode(),
                                                                 ctypes.byref(self.device)) == 0)
                or self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)) == 0)
        except OSError:
            found = False
        if not found:
            self.library = None

    def _number(self, name, *arguments):
        value = ctypes.c_uint()
        if self.library is None or getattr(self.library, name)(self.device, *arguments,
                                                               ctypes.byref(value)) != 0:
            return None
        return value.value

    def clock(self, kind, highest):
        """MHz; kind 1: SMs, 2: memory."""
        return self._number("nvmlDeviceGetMaxClockInfo" if highest else "nvmlDeviceGetClockInfo", kind)

    def power_limit(self):
        milliwatts = self._number("nvmlDeviceGetEnforcedPowerLimit")
        return None if milliwatts is None else milliwatts / 1000

    def driver(self):
        text = ctypes.create_string_buffer(96)
        if self.library is None or self.library.nvmlSystemGetDriverVersion(text, 96) != 0:
            return None
        return text.value.decode()


# --- The file -----------------------------------------------------------------------------

SAME = ("phantora_bench", "gpu", "driver", "torch", "power_limit_w")


def resume(path, header):
    """Keys of what is in the file, which is made if need be. A line that was cut is taken away."""
    if not path.exists() or not path.stat().st_size:
        path.write_text(json.dumps(header) + "\n", encoding="utf-8")
        return set()
    content = path.read_bytes()
    whole = content[:content.rfind(b"\n") + 1]
    lines = [json.loads(line) for line in whole.splitlines()]
    if not lines or any(lines[0].get(name) != header[name] for name in SAME):
        sys.exit(f"{path} is of another GPU, driver or version; give another file")
    if whole != content:
        path.write_bytes(whole)
    return {key_of(line) for line in lines[1:]}


def chosen(options):
    define_all()
    ops = [op for op in OPS.values() if op.level <= options.level
           and (not options.only or op.family in options.only)
           and max([0, *(v for k, v in op.parameters.items() if k == "bytes")]) <= options.most_bytes]
    unknown = set(options.only or ()) - {op.family for op in OPS.values()}
    if unknown:
        sys.exit(f"no family {', '.join(unknown)}; there are {', '.join(sorted({o.family for o in OPS.values()}))}")
    return sorted(ops, key=lambda op: op.level)  # stable


def measure(options):
    if not torch().cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    ops, bench = chosen(options), Bench(not options.no_profiler)
    done = resume(options.output, bench.header())
    ops = [op for op in ops if op.key not in done]
    deadline = time.monotonic() + options.minutes * 60
    with options.output.open("a", encoding="utf-8") as file:
        for number, op in enumerate(ops):
            if time.monotonic() > deadline:
                print(f"time is over with {len(ops) - number} operations left; run it again to go on")
                break
            line = bench.measure(op)
            file.write(json.dumps(line) + "\n")
            file.flush()
            try:
                torch().cuda.synchronize()
                torch().cuda.empty_cache()
            except RuntimeError as error:  # nothing works in this process any more
                sys.exit(f"the GPU failed at {op.key}: {error}\nrun it again to go on with the next")
            print(f"{number + 1}/{len(ops)} {op.name} {op.parameters} "
                  f"{line.get('skipped') or str(line['time_us']) + ' us'}", file=sys.stderr)
    print(f"wrote {options.output}")


def show(options):
    for op in chosen(options):
        print(op.level, op.family, op.key)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function, name in ((measure, "measure"), (show, "list")):
        command = commands.add_parser(name)
        command.add_argument("--only", action="append", metavar="FAMILY", help="may be given several times")
        command.add_argument("--level", type=int, default=2, help="0: the least, 2: all (default)")
        command.add_argument("--most-bytes", type=int, default=1 << 30, help="of a copy (default 1 GiB)")
        command.set_defaults(run=function)
        if function is measure:
            command.add_argument("-o", "--output", type=pathlib.Path, required=True)
            command.add_argument("--minutes", type=float, default=25, help="at most (default 25)")
            command.add_argument("--no-profiler", action="store_true", help="events alone")
    if sys.argv[1:2] == ["rows"]:
        sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
        import bench_rows  # pylint: disable=import-outside-toplevel
        return bench_rows.main(sys.argv[2:])
    commands.add_parser("rows", help="phantora_bench.py rows --help")
    options = parser.parse_args()
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
