#!/usr/bin/env python3
"""The kernels that NVIDIA's CUPTI records of a small model's steps, by its activity API: as JSON.

usage: cupti_kernels.py LIBCUPTI
"""

import ctypes
import json
import sys

import torch

CONCURRENT_KERNEL = 10  # CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
BUFFER_BYTES = 1 << 20


class Kernel(ctypes.Structure):
    """The beginning of CUpti_ActivityKernel9 (cupti_activity.h)."""

    _fields_ = [("kind", ctypes.c_uint32), ("cache", ctypes.c_uint8), ("shared", ctypes.c_uint8),
                ("registers", ctypes.c_uint16), ("partitioned", ctypes.c_uint32 * 2),
                ("start", ctypes.c_uint64), ("end", ctypes.c_uint64), ("completed", ctypes.c_uint64),
                ("device", ctypes.c_uint32), ("context", ctypes.c_uint32), ("stream", ctypes.c_uint32),
                ("grid", ctypes.c_int32 * 3), ("block", ctypes.c_int32 * 3), ("memory", ctypes.c_int32 * 4),
                ("correlation", ctypes.c_uint32), ("grid_id", ctypes.c_int64), ("name", ctypes.c_char_p)]


def main():
    cupti = ctypes.CDLL(sys.argv[1])
    buffers, kernels = [], []

    def check(result):
        assert result == 0, f"CUPTI: {result}"

    @ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t),
                      ctypes.POINTER(ctypes.c_size_t))
    def requested(buffer, size, most):
        buffers.append(ctypes.create_string_buffer(BUFFER_BYTES + 8))
        buffer[0] = (ctypes.addressof(buffers[-1]) + 7) & ~7
        size[0], most[0] = BUFFER_BYTES, 0

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
    def completed(_context, _stream, buffer, _size, valid):
        record = ctypes.c_void_p()
        while cupti.cuptiActivityGetNextRecord(ctypes.c_void_p(buffer), ctypes.c_size_t(valid),
                                               ctypes.byref(record)) == 0:
            kernel = ctypes.cast(record, ctypes.POINTER(Kernel)).contents
            if kernel.kind == CONCURRENT_KERNEL:
                kernels.append({"name": kernel.name.decode(), "start_ns": kernel.start, "end_ns": kernel.end})

    check(cupti.cuptiActivityRegisterCallbacks(requested, completed))
    check(cupti.cuptiActivityEnable(CONCURRENT_KERNEL))
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).cuda()
    data = torch.randn(64, 256, device="cuda")
    for _ in range(3):
        model(data).sum().backward()
    torch.cuda.synchronize()
    check(cupti.cuptiActivityFlushAll(1))
    kernels.sort(key=lambda kernel: kernel["start_ns"])
    print(json.dumps(kernels))


if __name__ == "__main__":
    main()
