#!/usr/bin/env python3
"""What calls of the CUDA driver and operations of PyTorch cost the processor, on a real GPU or an emulated one.

  host_truth.py [-o FILE] [--only REGEX] [--list]
  host_truth.py --compare REAL.jsonl EMULATED.jsonl

A line of JSON per measurement, printed and written to FILE: what; us, microseconds of one call, the median of batches;
p10 and p90 of the batches; count, how many batches; calls, how many calls a batch has, whose mean is the batch's time.
One that could not be made has failed, a text, instead. The first line, machine, says where this was.

  reference  Python and the processor alone, to tell machines apart
  once       what is done once in a process; the driver's parts come before PyTorch's
  driver     calls of libcuda.so.1 by ctypes, with what ctypes takes (the references with as many arguments), in a
             stream that does not wait for the default one
  torch      operations of PyTorch on float32, no gradients but where it says so

Time is that until calls have returned, or, of a round trip, until cuStreamSynchronize after each has. The GPU is idle
when a batch begins, and no batch fills its queue. Each measurement has three batches to warm up; then all count, 20 to
100, as many as begin in 0.2 s. The clock is time.perf_counter_ns, so on the emulated GPU time is simulated.

--compare prints a Markdown table of two such files.
"""

import argparse
import contextlib
import ctypes
import functools
import gc
import importlib.metadata
import itertools
import json
import os
import platform
import re
import statistics
import sys
import threading
import time

WARM, LEAST, MOST, SECONDS = 3, 20, 100, 0.2
KIB, MIB = 1 << 10, 1 << 20
NON_BLOCKING, DISABLE_TIMING, NOT_READY = 1, 2, 600  # CU_STREAM_, CU_EVENT_, CUDA_ERROR_
PTX = b"""
.version 6.5
.target sm_75
.address_size 64
.visible .entry nothing() { ret; }
.visible .entry nothing_64(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d,
                           .param .u64 e, .param .u64 f, .param .u64 g, .param .u64 h) { ret; }
"""


def batches(call, calls, before=None, after=None, expected=None):
    """Microseconds of a call in each of some batches, and how many calls these have. before and after belong to the
    batch and not to its time. expected is what each call has to return, a number."""
    samples, spent, number = [], 0, -WARM
    while len(samples) < LEAST or len(samples) < MOST and spent < SECONDS * 1e9:
        wrong = 0
        if before:
            before()
        begin = time.perf_counter_ns()
        if expected is None:
            for _ in itertools.repeat(None, calls):
                call()
        else:
            for _ in itertools.repeat(None, calls):
                wrong |= call() ^ expected
        took = time.perf_counter_ns() - begin
        if wrong:
            raise RuntimeError(f"a call returned {wrong ^ expected}, not {expected}")
        if after:
            after()
        if number >= 0:
            samples.append(took / 1e3 / calls)
            spent += took
        number += 1
    return samples, calls


class Once:
    """Keeps what was done once, and how long it took."""

    def __init__(self):
        self.took = {}

    def __call__(self, what, function, *arguments):
        begin = time.perf_counter_ns()
        result = function(*arguments)
        self.took[what] = time.perf_counter_ns() - begin
        return result

    def samples(self, what):
        return [self.took[what] / 1e3], 1


ONCE = Once()


# Python and the processor.


def additions():
    total = 0
    for _ in range(1_000_000):
        total += 1


def copy(size):
    source, target = bytearray(b"x") * size, bytearray(size)

    def call():
        target[:] = source
    return batches(call, 1)


def c_function(arguments):
    """What ctypes takes for a call: a function of C that looks at the first argument alone."""
    return batches(functools.partial(ctypes.CDLL(None).abs, *[ctypes.c_void_p(0)] * arguments), 100, expected=0)


def hand_over():
    """To another thread, which sleeps, and back."""
    there, back, ended = threading.Semaphore(0), threading.Semaphore(0), []

    def answer():
        while True:
            there.acquire()
            if ended:
                return
            back.release()

    def call():
        there.release()
        back.acquire()
    thread = threading.Thread(target=answer)
    thread.start()
    try:
        return batches(call, 20)
    finally:
        ended.append(True)
        there.release()
        thread.join()


REFERENCES = {
    "loop of 1e6 additions": lambda: batches(additions, 1),
    "bytearray copy, 64 MiB": lambda: copy(64 * MIB),
    "bytearray copy, 4 KiB": lambda: copy(4 * KIB),
    "os.getppid": lambda: batches(os.getppid, 10_000),
    "time.perf_counter": lambda: batches(time.perf_counter, 5_000),  # 1e5 times in all, at least
    "ctypes, 1 argument": lambda: c_function(1),
    "ctypes, 3 arguments": lambda: c_function(3),
    "ctypes, 11 arguments": lambda: c_function(11),
    "hand-over to a thread and back": hand_over,
}


# The driver.


class KernelNodeParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2"""
    _fields_ = [("func", ctypes.c_void_p),
                *((name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
                *((name, ctypes.c_void_p) for name in ("params", "extra", "kern", "ctx"))]


class Driver:
    """libcuda.so.1 with a context, a module and two streams."""

    def __init__(self):
        os.environ["CUDA_CACHE_DISABLE"] = "1"  # of what the driver compiles
        self.cuda = ONCE("load libcuda.so.1", ctypes.CDLL, "libcuda.so.1")
        ONCE("cuInit", self.do, "cuInit", 0)
        self.device = ctypes.c_int()
        self.do("cuDeviceGet", ctypes.byref(self.device), 0)
        name, self.version = ctypes.create_string_buffer(100), ctypes.c_int()
        self.do("cuDeviceGetName", name, 100, self.device)
        self.do("cuDriverGetVersion", ctypes.byref(self.version))
        self.name = name.value.decode()
        self.context = ctypes.c_void_p()
        ONCE("cuDevicePrimaryCtxRetain", self.do, "cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self.do("cuCtxSetCurrent", self.context)
        self.stream, self.other = self.new_stream(), self.new_stream()
        self.synchronize = functools.partial(self.do, "cuCtxSynchronize")
        self.wait = self.call("cuStreamSynchronize", self.stream)
        self.values = [ctypes.c_uint64(0) for _ in range(8)]  # of parameters
        self.params = (ctypes.c_void_p * 8)(*[ctypes.addressof(value) for value in self.values])

    @functools.cached_property
    def kernels(self):
        """Of no parameters, and of 64 bytes."""
        module, nothing, nothing_64 = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        ONCE("cuModuleLoadData of PTX", self.do, "cuModuleLoadData", ctypes.byref(module), PTX)
        self.do("cuModuleGetFunction", ctypes.byref(nothing), module, b"nothing")
        self.do("cuModuleGetFunction", ctypes.byref(nothing_64), module, b"nothing_64")
        launch = self.call("cuLaunchKernel", nothing, 1, 1, 1, 1, 1, 1, 0, self.stream, None, None)
        ONCE("first cuLaunchKernel and cuStreamSynchronize", self.check, self.together(launch, self.wait))
        return nothing, nothing_64

    @staticmethod
    def check(call):
        status = call()
        if status:
            raise RuntimeError(f"the driver returned {status}")

    def do(self, name, *arguments):
        status = getattr(self.cuda, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} returned {status}")

    def call(self, name, *arguments):
        return functools.partial(getattr(self.cuda, name), *arguments)

    @staticmethod
    def together(first, second):
        return lambda: first() | second()

    def new_stream(self):
        stream = ctypes.c_void_p()
        self.do("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
        return stream

    def new_event(self):
        event = ctypes.c_void_p()
        self.do("cuEventCreate", ctypes.byref(event), DISABLE_TIMING)
        return event

    def allocated(self, size):
        pointer = ctypes.c_uint64()
        self.do("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def launch(self, size=0):
        kernel, params = (self.kernels[1], self.params) if size else (self.kernels[0], None)
        return self.call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, self.stream, params, None)

    def measure(self, call, calls, trip=False, **others):
        if trip:
            call = self.together(call, self.wait)
        return batches(call, calls, **{"after": self.synchronize, "expected": 0, **others})

    # Measurements.

    def recorded(self, name, *arguments):
        """A call about an event that has happened."""
        event = self.new_event()
        self.do("cuEventRecord", event, self.other)
        self.synchronize()
        return self.measure(self.call(name, *[event if a is None else a for a in arguments]), 100)

    def pending(self, name, expected, *arguments):
        """A call about an event that comes after 4 GiB of fills in the other stream: 1.3 ms at 3 TB/s."""
        event, size = self.new_event(), ctypes.c_size_t(256 * MIB)
        memory = self.allocated(size.value)

        def before():
            for _ in range(16):
                self.do("cuMemsetD8Async", memory, 0, size, self.other)
            self.do("cuEventRecord", event, self.other)

        def after():
            status = self.cuda.cuEventQuery(event)
            self.synchronize()
            if status != NOT_READY:
                raise RuntimeError(f"the fills ended before the calls: cuEventQuery returned {status}")
        try:
            return self.measure(self.call(name, *[event if a is None else a for a in arguments]), 100, before=before,
                                after=after, expected=expected)
        finally:
            self.synchronize()
            self.do("cuMemFree_v2", memory)

    def to_device(self, size, pinned, trip):
        memory, host, buffer = self.allocated(size), ctypes.c_void_p(), None
        if pinned:
            self.do("cuMemAllocHost_v2", ctypes.byref(host), ctypes.c_size_t(size))
        else:
            buffer = ctypes.create_string_buffer(b"x" * size, size)
            host.value = ctypes.addressof(buffer)
        try:
            return self.measure(self.call("cuMemcpyHtoDAsync_v2", memory, host, ctypes.c_size_t(size), self.stream),
                                50 if size < MIB else 10, trip)
        finally:
            self.synchronize()
            self.do("cuMemFree_v2", memory)
            if pinned:
                self.do("cuMemFreeHost", host)

    def to_host(self):
        memory, buffer = self.allocated(4), ctypes.create_string_buffer(4)
        return self.measure(self.call("cuMemcpyDtoH_v2", buffer, memory, ctypes.c_size_t(4)), 50)

    def fill(self, trip):
        size = 4 * KIB
        return self.measure(self.call("cuMemsetD8Async", self.allocated(size), 0, ctypes.c_size_t(size), self.stream),
                            50, trip)

    def allocate(self, size, part):
        pointer = ctypes.c_uint64()
        allocate = self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        free = self.call("cuMemFree_v2", pointer)
        if part == "allocate":
            return self.measure(allocate, 1, after=functools.partial(self.check, free))
        if part == "free":
            return self.measure(free, 1, before=functools.partial(self.check, allocate))
        return self.measure(self.together(allocate, free), 5)

    def allocate_host(self):
        pointer = ctypes.c_void_p()
        return self.measure(self.call("cuMemAllocHost_v2", ctypes.byref(pointer), ctypes.c_size_t(MIB)), 1,
                            after=lambda: self.do("cuMemFreeHost", pointer))

    def graph(self, nodes, trip):
        """Each node after the one before it, as a stream's capture makes them."""
        graph, executable, node = ctypes.c_void_p(), ctypes.c_void_p(), None
        self.do("cuGraphCreate", ctypes.byref(graph), 0)
        params = KernelNodeParams(self.kernels[0].value, 1, 1, 1, 1, 1, 1)
        for _ in range(nodes):
            last, node = node, ctypes.c_void_p()
            self.do("cuGraphAddKernelNode_v2", ctypes.byref(node), graph, ctypes.byref(last) if last else None,
                    ctypes.c_size_t(1 if last else 0), ctypes.byref(params))
        self.do("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_uint64(0))
        self.do("cuGraphUpload", executable, self.stream)
        self.synchronize()
        try:
            calls = {1: 50, 10: 20}.get(nodes, 5)
            return self.measure(self.call("cuGraphLaunch", executable, self.stream), calls, trip)
        finally:
            self.synchronize()
            self.do("cuGraphExecDestroy", executable)
            self.do("cuGraphDestroy", graph)


@functools.cache
def driver():
    return Driver()


def driver_measurements():
    yield "cuLaunchKernel", lambda d: d.measure(d.launch(), 100)
    yield "cuLaunchKernel, 64 bytes of parameters", lambda d: d.measure(d.launch(64), 100)
    yield "cuLaunchKernel, round trip", lambda d: d.measure(d.launch(), 50, True)
    yield "cuStreamSynchronize, idle", lambda d: d.measure(d.wait, 100)
    yield "cuCtxSynchronize, idle", lambda d: d.measure(d.call("cuCtxSynchronize"), 100)
    yield "cuEventRecord", lambda d: d.measure(d.call("cuEventRecord", d.new_event(), d.stream), 100)
    yield "cuEventQuery, finished", lambda d: d.recorded("cuEventQuery", None)
    yield "cuEventQuery, not finished", lambda d: d.pending("cuEventQuery", NOT_READY, None)
    yield "cuEventSynchronize, finished", lambda d: d.recorded("cuEventSynchronize", None)
    yield "cuStreamWaitEvent, finished", lambda d: d.recorded("cuStreamWaitEvent", d.stream, None, 0)
    yield "cuStreamWaitEvent, not finished", lambda d: d.pending("cuStreamWaitEvent", 0, d.stream, None, 0)
    for size, text in ((4, "4 B"), (4 * KIB, "4 KiB"), (MIB, "1 MiB")):
        for pinned, kind in ((False, "pageable"), (True, "pinned")):
            for trip, how in ((False, ""), (True, ", round trip")):
                yield (f"cuMemcpyHtoDAsync, {text} {kind}{how}",
                       lambda d, size=size, pinned=pinned, trip=trip: d.to_device(size, pinned, trip))
    yield "cuMemcpyDtoH, 4 B", Driver.to_host
    yield "cuMemsetD8Async, 4 KiB", lambda d: d.fill(False)
    yield "cuMemsetD8Async, 4 KiB, round trip", lambda d: d.fill(True)
    for size in (2, 64):
        yield f"cuMemAlloc and cuMemFree, {size} MiB", lambda d, size=size: d.allocate(size * MIB, None)
        yield f"cuMemAlloc, {size} MiB", lambda d, size=size: d.allocate(size * MIB, "allocate")
        yield f"cuMemFree, {size} MiB", lambda d, size=size: d.allocate(size * MIB, "free")
    yield "cuMemAllocHost, 1 MiB", Driver.allocate_host
    for nodes in (1, 10, 100):
        kernels = f"{nodes} kernel{'s' if nodes > 1 else ''}"
        yield f"cuGraphLaunch, {kernels}", lambda d, nodes=nodes: d.graph(nodes, False)
        yield f"cuGraphLaunch, {kernels}, round trip", lambda d, nodes=nodes: d.graph(nodes, True)


# PyTorch.


class Torch:
    """PyTorch with tensors."""

    def __init__(self):
        def load():
            import torch  # pylint: disable=import-outside-toplevel
            import torch.nn.functional  # pylint: disable=import-outside-toplevel
            return torch
        self.torch = ONCE("import torch", load)
        self.functional = self.torch.nn.functional
        torch, waited = self.torch, self.waited
        self.a = ONCE("torch, first tensor on the GPU", waited, lambda: torch.ones(32, 32, device="cuda"))
        self.b = torch.rand(32, 32, device="cuda")
        self.weight, self.bias = self.a[0], self.b[0]
        self.one = torch.ones(1, device="cuda")
        self.on_host = torch.ones(1)
        ONCE("torch, first product", waited, lambda: self.a @ self.b)

    def waited(self, function):
        result = function()
        self.torch.cuda.synchronize()
        return result

    def measure(self, call, calls=50, before=None):
        return batches(call, calls, before, self.torch.cuda.synchronize)

    # Measurements.

    def linear(self, data_type):
        x, weight, bias = (self.torch.rand(*shape, device="cuda", dtype=getattr(self.torch, data_type))
                           for shape in ((32, 32), (32, 32), (32,)))
        return self.measure(functools.partial(self.functional.linear, x, weight, bias))

    def perceptron(self, backward):
        torch = self.torch
        layers = [layer for _ in range(10) for layer in (torch.nn.Linear(32, 32), torch.nn.ReLU())]
        model, loss = torch.nn.Sequential(*layers).cuda(), []

        def forward():
            loss[:] = [model(self.a).sum()]

        def before():
            model.zero_grad(set_to_none=True)
            forward()
            torch.cuda.synchronize()
        if backward:
            return self.measure(lambda: loss[0].backward(), 1, before)
        return self.measure(forward, 5)

    def adamw(self, **how):
        torch = self.torch
        parameters = [torch.nn.Parameter(torch.rand(32, device="cuda")) for _ in range(50)]
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        return self.measure(torch.optim.AdamW(parameters, **how).step, 5)


@functools.cache
def pytorch():
    with contextlib.suppress(Exception):
        driver()  # first, so that what is done once is always the same
    return Torch()


TORCH = {
    "add, 32x32": lambda t: t.measure(functools.partial(t.torch.add, t.a, t.b)),
    "mul out=, 32x32": lambda t: t.measure(functools.partial(t.torch.mul, t.a, t.b, out=t.torch.empty_like(t.a))),
    "linear, 32x32": lambda t: t.linear("float32"),
    "linear, 32x32 bfloat16": lambda t: t.linear("bfloat16"),
    "layer_norm, 32x32": lambda t: t.measure(functools.partial(t.functional.layer_norm, t.a, (32,), t.weight, t.bias)),
    "gelu, 32x32": lambda t: t.measure(functools.partial(t.functional.gelu, t.a)),
    "softmax, 32x32": lambda t: t.measure(functools.partial(t.torch.softmax, t.a, -1)),
    "item()": lambda t: t.measure(t.one.item),
    "empty, 32x32": lambda t: t.measure(functools.partial(t.torch.empty, (32, 32), device="cuda")),
    "to(cuda), 4 B": lambda t: t.measure(functools.partial(t.on_host.to, "cuda")),
    "synchronize(), idle": lambda t: t.measure(t.torch.cuda.synchronize),
    "forward of 10 layers, with gradients": lambda t: t.perceptron(False),
    "backward of 10 layers": lambda t: t.perceptron(True),
    "AdamW, fused, 50 tensors": lambda t: t.adamw(fused=True),
    "AdamW, foreach, 50 tensors": lambda t: t.adamw(foreach=True),
}


# All.


def measurements():
    """(name, function that gives samples and calls of each) of all."""
    for name, function in REFERENCES.items():
        yield f"reference: {name}", function
    for name in ("load libcuda.so.1", "cuInit", "cuDevicePrimaryCtxRetain"):
        yield f"once: {name}", lambda name=name: driver() and ONCE.samples(name)
    for name in ("cuModuleLoadData of PTX", "first cuLaunchKernel and cuStreamSynchronize"):
        yield f"once: {name}", lambda name=name: driver().kernels and ONCE.samples(name)
    for name, function in driver_measurements():
        yield f"driver: {name}", lambda function=function: function(driver())
    for name in ("import torch", "torch, first tensor on the GPU", "torch, first product"):
        yield f"once: {name}", lambda name=name: pytorch() and ONCE.samples(name)
    for name, function in TORCH.items():
        yield f"torch: {name}", lambda function=function: function(pytorch())


def quantile(samples, fraction):
    samples = sorted(samples)
    at = fraction * (len(samples) - 1)
    low = int(at)
    return samples[low] + (at - low) * (samples[min(low + 1, len(samples) - 1)] - samples[low])


def measure(name, function):
    gc.collect()
    gc.disable()
    try:
        samples, calls = function()
    except Exception as error:  # pylint: disable=broad-except
        return {"what": name, "failed": (str(error) or repr(error))[:300]}
    finally:
        gc.enable()
    rounded = {key: float(f"{value:.5g}") for key, value in (
        ("us", statistics.median(samples)), ("p10", quantile(samples, 0.1)), ("p90", quantile(samples, 0.9)))}
    return {"what": name, **rounded, "count": len(samples), "calls": calls}


def machine(with_gpu):
    line = {"what": "machine", "processor": platform.machine(), "processors": len(os.sched_getaffinity(0)),
            "kernel": platform.release(), "python": platform.python_version()}
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            line["processor"] = re.search(r"model name\s*: (.*)", file.read()).group(1)
    except (OSError, AttributeError):
        pass
    try:
        line["torch"] = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        pass
    if with_gpu:
        try:
            line.update(gpu=driver().name, cuda=driver().version.value)
        except Exception as error:  # pylint: disable=broad-except
            line["gpu_failed"] = str(error)[:300]
    return line


def compare(real, emulated):
    """Prints a Markdown table of two files."""
    tables = []
    for path in (real, emulated):
        with open(path, encoding="utf-8") as file:
            tables.append({line["what"]: line for line in map(json.loads, filter(str.strip, file))})
    for title, table in zip(("Real", "Emulated"), tables):
        line = table.pop("machine", {})
        print(f"{title}: {', '.join(f'{key} {value}' for key, value in line.items() if key != 'what')}\n")

    def number(value):
        return f"{float(f'{value:.4g}'):,.10g}"

    def cell(line):
        if line is None:
            return "-"
        if "us" not in line:
            return "failed: " + line.get("failed", "").replace("|", "\\|").replace("\n", " ")[:60]
        if line["count"] == 1:
            return number(line["us"])
        return f"{number(line['us'])} ({number(line['p10'])} to {number(line['p90'])})"
    print("| what | real, us (10th to 90th) | emulated, us (10th to 90th) | emulated / real |\n|---|---|---|---|")
    for name in {**tables[0], **tables[1]}:
        there, here = (table.get(name) for table in tables)
        both = there and here and "us" in here and there.get("us")
        ratio = f"{here['us'] / there['us']:.2f}" if both else "-"
        print(f"| {name} | {cell(there)} | {cell(here)} | {ratio} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output")
    parser.add_argument("--only", metavar="REGEX", type=re.compile, help="measurements whose name it is found in")
    parser.add_argument("--list", action="store_true", help="names of measurements")
    parser.add_argument("--compare", nargs=2, metavar=("REAL.jsonl", "EMULATED.jsonl"))
    options = parser.parse_args()
    if options.compare:
        return compare(*options.compare)
    chosen = [(name, function) for name, function in measurements() if not options.only or options.only.search(name)]
    if not chosen:
        parser.error("nothing has such a name")
    if options.list:
        print("\n".join(name for name, _ in chosen))
        return None
    lines = itertools.chain([machine(not all(name.startswith("reference") for name, _ in chosen))],
                            itertools.starmap(measure, chosen))
    with open(options.output or os.devnull, "w", encoding="utf-8") as output:
        succeeded = 0
        for line in lines:
            print(json.dumps(line), flush=True)
            print(json.dumps(line), file=output, flush=True)
            succeeded += "us" in line
    return None if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
