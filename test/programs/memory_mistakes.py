#!/usr/bin/env python3
"""What programs do with GPU memory and may not, one mistake after the other, and what looks like one and is none.

    memory_mistakes.py CASE...

Prints "done CASE" after each, whatever came of it: a GPU does not mind.
"""

import ctypes
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kernels"))

from gpu import CudaError, Gpu  # noqa: E402

SOURCE = """
extern "C" __global__ void scale(float* to, const float* from, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = 2 * from[i];
}
extern "C" __global__ void scale_wide(float4* to, const float4* from, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i];
}
extern "C" __global__ void before(float* to, int n) { to[int(threadIdx.x) - n] = 1; }
extern "C" __global__ void count(int* to, int n) {
  if (threadIdx.x < n) atomicAdd(&to[threadIdx.x], 1);
}
extern "C" __global__ void own(float* to, int n) {
  to[threadIdx.x] = threadIdx.x;
  to[threadIdx.x] += to[threadIdx.x];
}
"""
FLOAT = 4


class Program:
    """Kernels, and memory by numbers of floats."""

    def __init__(self):
        self.gpu = Gpu()
        self.module = self.gpu.compile(SOURCE)

    def launch(self, name, count, *arguments, block=128):
        self.module.launch(name, (count + block - 1) // block, block, *arguments)
        self.gpu.synchronize()

    def zeros(self, count):
        address = self.gpu.allocate(FLOAT * count)
        self.gpu.call("cuMemsetD8_v2", ctypes.c_uint64(address), 0, ctypes.c_size_t(FLOAT * count))
        return address

    def scale(self, to, source, count, name="scale"):
        self.launch(name, count, np.uint64(to), np.uint64(source), np.int32(count))


def right(p):
    """Nothing is wrong with it: all is written before it is read, and freed."""
    for count in (1, 3, 33, 1000, 4096, 100_003, 1_000_000):
        source, to = p.zeros(count), p.gpu.allocate(FLOAT * count)
        p.scale(to, source, count)
        out = np.empty(count, np.float32)
        p.gpu.download(to, out)
        assert not out.any()
        p.gpu.free(source)
        p.gpu.free(to)
    counts = p.zeros(32)
    p.launch("count", 32, np.uint64(counts), np.int32(32), block=32)
    p.gpu.free(counts)
    alone = p.gpu.allocate(FLOAT * 64)
    p.launch("own", 64, np.uint64(alone), np.int32(64), block=64)
    p.gpu.free(alone)


def writes_behind(p):
    to, source = p.zeros(1000), p.zeros(1001)
    p.scale(to, source, 1001)


def reads_behind(p):
    to, source = p.zeros(1024), p.zeros(1000)
    p.scale(to, source, 1024)


def wide_behind(p):
    to, source = p.zeros(256), p.zeros(256)
    p.scale(to, source, 65, "scale_wide")


def writes_before(p):
    p.zeros(1000)
    p.launch("before", 1, np.uint64(p.zeros(100)), np.int32(2), block=4)


def counts_behind(p):
    p.launch("count", 32, np.uint64(p.zeros(16)), np.int32(17), block=32)


def uses_freed(p):
    to, source = p.zeros(100), p.zeros(100)
    p.gpu.free(source)
    p.scale(to, source, 100)


def reads_unwritten(p):
    to, source = p.zeros(1000), p.gpu.allocate(FLOAT * 1000)
    p.gpu.call("cuMemsetD8_v2", ctypes.c_uint64(source), 0, ctypes.c_size_t(FLOAT * 900))
    p.scale(to, source, 1000)


def counts_unwritten(p):
    p.launch("count", 32, np.uint64(p.gpu.allocate(FLOAT * 32)), np.int32(32), block=32)


def copies_unwritten(p):
    p.gpu.download(p.gpu.allocate(4096), np.empty(1024, np.float32))


def copies_copied_unwritten(p):
    source, to = p.gpu.allocate(4096), p.gpu.allocate(4096)
    p.gpu.call("cuMemcpyDtoD_v2", ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(4096))
    p.gpu.download(to, np.empty(1024, np.float32))


def fills_behind(p):
    p.gpu.call("cuMemsetD32_v2", ctypes.c_uint64(p.zeros(100)), 7, ctypes.c_size_t(120))


def fills_far_behind(p):
    p.gpu.call("cuMemsetD32_v2", ctypes.c_uint64(p.zeros(100)), 7, ctypes.c_size_t(10_000_000))


def copies_behind(p):
    to, source = p.zeros(100), p.zeros(120)
    p.gpu.call("cuMemcpyDtoD_v2", ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(FLOAT * 120))


def uploads_behind(p):
    data = np.zeros(120, np.float32)
    p.gpu.call(
        "cuMemcpyHtoD_v2", ctypes.c_uint64(p.zeros(100)), data.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(data.nbytes)
    )


def frees_twice(p):
    address = p.zeros(100)
    p.gpu.free(address)
    p.gpu.free(address)


def frees_middle(p):
    p.gpu.free(p.zeros(100) + 16)


def leaks(p):
    for _ in range(3):
        p.zeros(1000)


def in_order(p):
    """Of a pool, in the order of a stream; nothing is wrong."""
    for count in (1000, 1000, 2000):
        address = ctypes.c_uint64()
        p.gpu.call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(FLOAT * count), None)
        source = p.zeros(count)
        p.scale(address.value, source, count)
        p.gpu.call("cuMemFreeAsync", address, None)
        p.gpu.free(source)


def in_order_behind(p):
    address = ctypes.c_uint64()
    p.gpu.call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(FLOAT * 1000), None)
    p.scale(address.value, p.zeros(1001), 1001)


def managed_behind(p):
    address = ctypes.c_uint64()
    p.gpu.call("cuMemAllocManaged", ctypes.byref(address), ctypes.c_size_t(FLOAT * 1000), 1)
    p.scale(address.value, p.zeros(1001), 1001)


def unmapped(p):
    p.scale(p.zeros(16), 0x7E0000000000, 16)


def main():
    for case in sys.argv[1:]:
        program = Program()
        try:
            globals()[case](program)
        except CudaError as error:
            print(f"{case}: {error}")
        print(f"done {case}", flush=True)


if __name__ == "__main__":
    main()
