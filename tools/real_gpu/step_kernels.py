#!/usr/bin/env python3
"""Steps of models on a GPU: what they take, what the host takes to submit them, and each of their kernels.

  step_kernels.py -o FILE [--compile] [--seconds N] MODEL...

A line of JSON per model of model_step.py: ms (median of ten steps, each waited for), submit_ms (until its last call
had returned), back_to_back_ms (ten steps, waited for once), peak_gib (reserved), sm_mhz and watts after them; names, and
kernels in order, each [name's number, grid, block, duration in ns, start in ns]; calls of the driver in
order, [name's number, start in ns, duration in ns], as PyTorch's profiler saw one more step.
"""

import argparse
import json
import os
import statistics
import tempfile
import time

import torch
from torch.profiler import ProfilerActivity, profile

import model_step
from published_calls import Power


def profiled(step, numbers):
    """Kernels and the driver's calls of a step."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        step()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        seen.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    def number(name):
        return numbers.setdefault(name, len(numbers))
    work = sorted((e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda e: e["ts"])
    calls = sorted((e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")), key=lambda e: e["ts"])
    zero = min((e["ts"] for e in (*work[:1], *calls[:1])), default=0)
    def nanoseconds(t):
        return round(t * 1e3)
    return ([[number(e["name"]), e["args"].get("grid"), e["args"].get("block"), nanoseconds(e["dur"]),
              nanoseconds(e["ts"] - zero)] for e in work],
            [[number(e["name"]), nanoseconds(e["ts"] - zero), nanoseconds(e["dur"])] for e in calls])


def measure(name, compiled, power):
    torch.cuda.reset_peak_memory_stats()
    training, took, submitted = model_step.Training(name, compiled), [], []
    for _ in range(4):
        training.step()
    torch.cuda.synchronize()
    for _ in range(10):
        begin = time.perf_counter()
        training.step()
        submitted.append(time.perf_counter() - begin)
        torch.cuda.synchronize()
        took.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    for _ in range(10):
        training.step()
    torch.cuda.synchronize()
    together = (time.perf_counter() - begin) / 10
    state = power.now()
    line = {"model": name, "compiled": compiled, "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
            "ms": 1e3 * statistics.median(took), "spread": max(took) / min(took) - 1,
            "submit_ms": 1e3 * statistics.median(submitted), "back_to_back_ms": 1e3 * together,
            "peak_gib": torch.cuda.max_memory_reserved() / 2**30, **state}
    numbers = {}
    line["kernels"], line["calls"] = profiled(training.step, numbers)
    line["names"] = list(numbers)
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--seconds", type=float, default=200, help="no model begins later (default 200)")
    options = parser.parse_args()
    until, power = time.monotonic() + options.seconds, Power()
    for name in options.models or model_step.MODELS:
        if time.monotonic() > until:
            print(f"no time for {name} and those after it")
            break
        begin = time.monotonic()
        try:
            line = measure(name, options.compile, power)
        except Exception as error:  # pylint: disable=broad-except
            line = {"model": name, "compiled": options.compile, "failed": repr(error)[:300]}
        with open(options.output, "a", encoding="utf-8") as output:
            output.write(json.dumps(line) + "\n")
        print(f"{name}: {line.get('ms', line.get('failed'))} ms, {time.monotonic() - begin:.0f} s", flush=True)
        torch._dynamo.reset()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
