#!/usr/bin/env python3
"""Times products and attention calls that others have published, as they did and as programs meet them.

  published_calls.py CALLS.tsv -o FILE [--seconds N]

A line of JSON per call and manner (us):
  graph_zeros    six products with six weights of zeros in a CUDA graph, as the publishers' collector does with weights
                 that it never fills: three warm replays, then the mean of six
  graph_random   the same with random weights
  sustained      the same for 0.2 s, so that clocks are those that power leaves; with the SMs' clock and watts at its end
  queued         one weight again and again, queued behind other work
  cold           one call after the second-level cache was filled with something else
Attention: graph_flash2 and graph_cudnn by PyTorch's two kernels, a call per graph.
"""

import argparse
import ctypes
import hashlib
import json
import statistics
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


class Power:
    """Clock and power, by NVML."""

    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.nvml.nvmlInit_v2()
        self.device = ctypes.c_void_p()
        self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))

    def now(self):
        mhz, milliwatts, celsius = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
        self.nvml.nvmlDeviceGetClockInfo(self.device, 1, ctypes.byref(mhz))
        self.nvml.nvmlDeviceGetPowerUsage(self.device, ctypes.byref(milliwatts))
        self.nvml.nvmlDeviceGetTemperature(self.device, 0, ctypes.byref(celsius))
        return {"sm_mhz": mhz.value, "watts": milliwatts.value / 1e3, "celsius": celsius.value}


def elapsed(function, calls):
    """Microseconds of each of some calls, by one pair of events."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        function()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / calls


def graph_of(functions):
    for function in functions[:1] * 3:
        function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for function in functions:
            function()
    return graph


def as_published(graph, calls):
    """The median of five means of six replays."""
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    return statistics.median(elapsed(graph.replay, 6) for _ in range(5)) / calls


def sustained(graph, calls, power):
    once = elapsed(graph.replay, 2)
    repeats = max(3, int(5e4 / once))
    times = [elapsed(graph.replay, repeats) for _ in range(4)]
    return {"us": times[-1] / calls, **power.now()}


def queued(function, once_us):
    calls = max(2, min(50, int(300 / once_us)))
    samples = []
    for _ in range(5):
        torch.cuda._sleep(int((calls * 12 + 20) * 2e3))
        samples.append(elapsed(function, calls))
    return statistics.median(samples)


def cold(function, filler):
    samples = []
    for _ in range(3):
        filler.zero_()
        samples.append(elapsed(function, 1))
    return statistics.median(samples)


def product(kind, m, n, k):
    """What multiplies by a weight, what makes weights of zeros, and of random numbers."""
    if kind == "gemm_bf16":
        x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        def random():
            return torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
        return (lambda w: torch.nn.functional.linear(x, w)), random, 2
    x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16).to(torch.float8_e4m3fn)
    rows, columns = torch.ones(m, 1, device="cuda"), torch.ones(1, n, device="cuda")
    def random():
        return torch.randn(n, k, device="cuda", dtype=torch.bfloat16).to(torch.float8_e4m3fn)
    return (lambda w: torch._scaled_mm(x, w.t(), rows, columns, out_dtype=torch.bfloat16)), random, 1


def time_product(kind, sizes, emit, power, filler, only_random):
    m, n, k = sizes
    multiply, random, size = product(kind, m, n, k)
    count = max(1, min(6, int(3e10 / (n * k * size))))
    first = random()
    if not only_random:
        zeros = [torch.zeros_like(first) for _ in range(count)]
        graph = graph_of([lambda w=w: multiply(w) for w in zeros])
        emit("graph_zeros", us=as_published(graph, count), weights=count)
        del graph, zeros
    weights = [first] + [random() for _ in range(count - 1)]
    graph = graph_of([lambda w=w: multiply(w) for w in weights])
    once_us = as_published(graph, count)
    emit("graph_random", us=once_us)
    if once_us > 30:
        emit("sustained", **sustained(graph, count, power))
    del graph
    if only_random:
        return
    emit("queued", us=queued(lambda: multiply(first), once_us))
    emit("cold", us=cold(lambda: multiply(first), filler))


def time_attention(batch, length, heads, kv_heads, emit):
    def tensor(h):
        return torch.randn(batch, length, h, 128, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
    q, k, v = tensor(heads), tensor(kv_heads), tensor(kv_heads)
    for name, backend in (("flash2", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
        def attention():
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                                        enable_gqa=heads != kv_heads)
        try:
            emit("graph_" + name, us=as_published(graph_of([attention]), 1))
        except RuntimeError as error:
            emit("graph_" + name, failed=str(error)[:200])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calls")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--random", action="store_true", help="products with random weights only: graph_random and sustained")
    parser.add_argument("--last", action="store_true", help="from the last call to the first")
    parser.add_argument("--seconds", type=float, default=90, help="no call begins later (default 90)")
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    with open(options.calls, encoding="utf-8") as file:
        calls = [line.split("\t") for line in file.read().splitlines() if line[0] != "#"][1:]
    calls.sort(key=lambda call: hashlib.md5("\t".join(call).encode()).hexdigest())  # so that a part is of all
    if options.last:
        calls.reverse()
    power, filler = Power(), torch.empty(4 * 50 << 20, dtype=torch.uint8, device="cuda")
    warm = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    begin = time.monotonic()
    while time.monotonic() < begin + 1.5:
        for _ in range(50):
            warm @ warm
        torch.cuda.synchronize()
    with open(options.output, "w", encoding="utf-8") as output:
        output.write(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
                                 "cuda": torch.version.cuda, **power.now()}) + "\n")
        for number, (family, *sizes, published) in enumerate(calls):
            if time.monotonic() > until:
                print(f"no time for {len(calls) - number} calls of {len(calls)}")
                break
            def emit(manner, **what):
                output.write(json.dumps({"family": family, "sizes": [int(s) for s in sizes],
                                         "published_us": float(published), "manner": manner,
                                         **{k: round(v, 4) if isinstance(v, float) else v for k, v in what.items()}}) + "\n")
            try:
                if family.startswith("gemm"):
                    time_product(family, [int(s) for s in sizes[:3]], emit, power, filler, options.random)
                else:
                    time_attention(*[int(s) for s in sizes], emit)
            except RuntimeError as error:
                emit("failed", why=str(error)[:200])
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
