"""What calls cost the host: each function returns the seconds that each of some calls took."""

import ctypes
import subprocess
import sys
import time

from bench.ops import torch


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
