"""What fails, and what a program prints: each in a process of its own."""

import ctypes
import os
import re
import tempfile

import numpy as np

from gpu import CudaError
from harness import case, check

TEXT = r"""
extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, size_t);
#define assert(e) ((e) ? (void)0 : __assertfail(#e, __FILE__, __LINE__, __func__, 1))
extern "C" __global__ void faults__null(int* p) { p[threadIdx.x] = 1; }
extern "C" __global__ void faults__wild(int* p, long long by) { p[by] = 1; }
extern "C" __global__ void faults__read(int* p, int* q) { q[0] = p[1ll << 36]; }
extern "C" __global__ void faults__misaligned(char* p) { *(int*)(p + 1) = 3; }
extern "C" __global__ void faults__misaligned16(char* p) { *(int4*)(p + 8) = int4{1, 2, 3, 4}; }
extern "C" __global__ void faults__shared(int* p) { extern __shared__ int s[]; s[p[0]] = 1; __syncthreads(); p[1] = s[p[0] + 1]; }
extern "C" __global__ void faults__trap(int* p) { if (p[0] == 0) __trap(); }
extern "C" __global__ void faults__printf(int* p) { if (threadIdx.x < 2) printf("thread %d of %s: %f %llx\n", threadIdx.x, "block", 1.5, 0x123456789abcdefll); p[threadIdx.x] = threadIdx.x; }
extern "C" __global__ void faults__assert(int* p) { assert(p[0] == 7 && "seven"); p[threadIdx.x] = 1; }
extern "C" __global__ void faults__good_assert(int* p) { assert(p[threadIdx.x] == 0); p[threadIdx.x] = 1; }
extern "C" __global__ void faults__endless(volatile int* p) { while (*p == 0) ; p[1] = 1; }
extern "C" __global__ void faults__breakpoint(int* p) { if (p[0] == 1) asm volatile("brkpt;"); p[threadIdx.x] = 2; }
extern "C" __global__ void faults__exit(int* p) { if (threadIdx.x % 2) asm volatile("exit;"); p[threadIdx.x] = 3; }
extern "C" __global__ void faults__atomic_wild(int* p, long long by) { atomicAdd(p + by, 1); }
extern "C" __global__ void faults__stack(int* p, int n) { int a[500]; for (int i = 0; i < 500; ++i) a[i] = i * n; p[0] = a[n]; }
"""


@case(result="CUDA_ERROR_ILLEGAL_ADDRESS")
def fault_null(gpu):
    gpu.compile(TEXT, "faults").launch("faults__null", 1, 32, np.uint64(0))


@case(result="CUDA_ERROR_ILLEGAL_ADDRESS")
def fault_wild(gpu):
    gpu.compile(TEXT, "faults").launch("faults__wild", 1, 32, np.zeros(4, np.int32), np.int64(1 << 38))


@case(result="CUDA_ERROR_ILLEGAL_ADDRESS")
def fault_read(gpu):
    gpu.compile(TEXT, "faults").launch("faults__read", 1, 32, np.zeros(4, np.int32), np.zeros(4, np.int32))


@case(result="CUDA_ERROR_ILLEGAL_ADDRESS")
def fault_atomic(gpu):
    gpu.compile(TEXT, "faults").launch("faults__atomic_wild", 1, 32, np.zeros(4, np.int32), np.int64(1 << 38))


@case(result="CUDA_ERROR_MISALIGNED_ADDRESS")
def fault_misaligned(gpu):
    gpu.compile(TEXT, "faults").launch("faults__misaligned", 1, 1, np.zeros(4, np.int32))


@case(result="CUDA_ERROR_MISALIGNED_ADDRESS")
def fault_misaligned16(gpu):
    gpu.compile(TEXT, "faults").launch("faults__misaligned16", 1, 1, np.zeros(16, np.int32))


@case
def fault_shared(gpu):
    """Some error: which of the two hardware gives has not been looked up."""
    try:
        gpu.compile(TEXT, "faults").launch("faults__shared", 1, 1, np.full(4, 1 << 20, np.int32), shared=64)
    except CudaError as failure:
        check("error", np.array(failure.text in ("CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED")), np.array(True))
        return
    check("an error", np.array(False), np.array(True))


@case(result="CUDA_ERROR_LAUNCH_FAILED")
def fault_trap(gpu):
    gpu.compile(TEXT, "faults").launch("faults__trap", 1, 32, np.zeros(4, np.int32))


def printed(action):
    """What `action` writes to this process's output, libcuda included, and the error that it ends in."""
    failure = None
    with tempfile.TemporaryFile() as file:
        before = [os.dup(number) for number in (1, 2)]
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        try:
            action()
        except CudaError as error:
            failure = error
        finally:
            ctypes.CDLL(None).fflush(None)
            for number in (1, 2):
                os.dup2(before[number - 1], number)
                os.close(before[number - 1])
        file.seek(0)
        return file.read().decode(), failure


@case
def fault_assert_text(gpu):
    """libcuda prints what the driver's own code in the kernel has written, and an error follows."""
    text, failure = printed(lambda: gpu.compile(TEXT, "faults").launch("faults__assert", 2, 32, np.zeros(32, np.int32)))
    check("an error", np.array(failure is not None), np.array(True))
    for thread in (0, 31):
        line = rf"faults\.cu:\d+: faults__assert: block: \[0,0,0\], thread: \[{thread},0,0\] Assertion `p\[0\] == 7 && \"seven\"` failed\."
        check(f"thread {thread}", np.array(len(re.findall(line, text))), np.array(1))


@case(result="CUDA_ERROR_ASSERT")
def fault_assert(gpu):
    printed(lambda: gpu.compile(TEXT, "faults").launch("faults__assert", 1, 32, np.zeros(32, np.int32)))
    gpu.synchronize()


@case
def fault_printf(gpu):
    out = np.full(32, 9, np.int32)
    text, _ = printed(lambda: gpu.compile(TEXT, "faults").launch("faults__printf", 1, 32, out))
    check("printf", out, np.arange(32))
    lines = [f"thread {thread} of block: 1.500000 123456789abcdef" for thread in range(2)]
    check("what was printed", np.array(sorted(text.split("\n"))[-2:] == lines), np.array(True))


@case
def fault_good_assert(gpu):
    out = np.zeros(32, np.int32)
    gpu.compile(TEXT, "faults").launch("faults__good_assert", 1, 32, out)
    check("an assertion that holds", out, np.ones(32))


@case
def fault_breakpoint_not_reached(gpu):
    out = np.zeros(32, np.int32)
    gpu.compile(TEXT, "faults").launch("faults__breakpoint", 1, 32, out)
    check("breakpoint", out, np.full(32, 2))


@case
def fault_exit(gpu):
    out = np.zeros(32, np.int32)
    gpu.compile(TEXT, "faults").launch("faults__exit", 1, 32, out)
    check("exit", out, np.where(np.arange(32) % 2, 0, 3))


@case
def fault_stack(gpu):
    out = np.zeros(1, np.int32)
    gpu.compile(TEXT, "faults").launch("faults__stack", 1, 32, out, np.int32(33))
    check("stack", out, [33 * 33])


@case
def fault_endless(gpu):
    """May be refused, as it would take for ever; the program goes on."""
    out = np.zeros(2, np.int32)
    gpu.compile(TEXT, "faults").launch("faults__endless", 1, 1, out)


@case
def fault_sticky(gpu):
    """After a fault every call fails, and the process ends well."""
    module = gpu.compile(TEXT, "faults")
    seen = []
    for _ in range(2):
        try:
            module.launch("faults__null", 1, 32, np.uint64(0))
        except CudaError as failure:
            seen.append(failure.text)
    try:
        gpu.allocate(100)
    except CudaError as failure:
        seen.append(failure.text)
    check("errors", np.array(seen), np.array(["CUDA_ERROR_ILLEGAL_ADDRESS"] * 3))
