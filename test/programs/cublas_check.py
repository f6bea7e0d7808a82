#!/usr/bin/env python3
"""Calls the CUDA runtime and cuBLAS directly, without PyTorch, as the pip packages install them."""

import ctypes
import importlib.util
import os
from ctypes import byref, c_char, c_float, c_int, c_size_t, c_void_p

HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 1, 2, 3


def load(package, library):
    folder = importlib.util.find_spec(f"nvidia.{package}").submodule_search_locations[0]
    return ctypes.CDLL(os.path.join(folder, "lib", library), mode=ctypes.RTLD_GLOBAL)


cudart = load("cuda_runtime", "libcudart.so.12")
load("cublas", "libcublasLt.so.12")
cublas = load("cublas", "libcublas.so.12")
cudart.cudaGetErrorString.restype = ctypes.c_char_p
cublas.cublasGetStatusString.restype = ctypes.c_char_p


class DeviceProp(ctypes.Structure):
    """The beginning of cudaDeviceProp of CUDA 12; the rest is spare room."""

    _fields_ = [
        ("name", c_char * 256),
        ("uuid", c_char * 16),
        ("luid", c_char * 8),
        ("luid_device_node_mask", ctypes.c_uint),
        ("total_memory", c_size_t),
        ("shared_memory_per_block", c_size_t),
        ("registers_per_block", c_int),
        ("warp_size", c_int),
        ("rest", c_char * 4096),
    ]


def cuda(status):
    assert status == 0, cudart.cudaGetErrorString(status).decode()


def blas(status):
    assert status == 0, cublas.cublasGetStatusString(status).decode()


def malloc(size):
    pointer = c_void_p()
    cuda(cudart.cudaMalloc(byref(pointer), c_size_t(size)))
    return pointer


def copy(target, source, size, kind):
    cuda(cudart.cudaMemcpy(target, source, c_size_t(size), kind))


def device_properties():
    count = c_int()
    cuda(cudart.cudaGetDeviceCount(byref(count)))
    assert count.value >= 1
    properties = DeviceProp()
    cuda(cudart.cudaGetDeviceProperties_v2(byref(properties), 0))
    free, total = c_size_t(), c_size_t()
    cuda(cudart.cudaMemGetInfo(byref(free), byref(total)))
    assert properties.warp_size == 32 and properties.shared_memory_per_block == 48 * 1024
    assert total.value == properties.total_memory and 0 < free.value < total.value
    print(properties.name.decode(), total.value)


def copies():
    size = 1_000_001
    data = os.urandom(size)
    first, second = malloc(size), malloc(size)
    back = ctypes.create_string_buffer(size)
    copy(first, data, size, HOST_TO_DEVICE)
    copy(second, first, size, DEVICE_TO_DEVICE)
    copy(back, second, size, DEVICE_TO_HOST)
    assert back.raw == data
    cuda(cudart.cudaMemset(first, 0xA5, c_size_t(1000)))
    copy(back, first, size, DEVICE_TO_HOST)
    assert back.raw == b"\xa5" * 1000 + data[1000:]
    # Every second row of 100 bytes.
    copy(first, data, size, HOST_TO_DEVICE)
    cuda(cudart.cudaMemset2D(first, c_size_t(200), 0x5A, c_size_t(100), c_size_t(50)))
    copy(back, first, size, DEVICE_TO_HOST)
    for row in range(50):
        assert back.raw[200 * row : 200 * row + 100] == b"\x5a" * 100
        assert back.raw[200 * row + 100 : 200 * row + 200] == data[200 * row + 100 : 200 * row + 200]
    cuda(cudart.cudaFree(first))
    cuda(cudart.cudaFree(second))


def sgemm():
    n = 256
    handle, stream = c_void_p(), c_void_p()
    blas(cublas.cublasCreate_v2(byref(handle)))
    cuda(cudart.cudaStreamCreate(byref(stream)))
    blas(cublas.cublasSetStream_v2(handle, stream))
    version = c_int()
    blas(cublas.cublasGetVersion_v2(handle, byref(version)))
    print("cuBLAS", version.value)
    a, b, c = (malloc(4 * n * n) for _ in range(3))
    ones = (c_float * (n * n))(*[1.0] * (n * n))
    for matrix in (a, b):
        copy(matrix, ones, 4 * n * n, HOST_TO_DEVICE)
    one, zero = c_float(1), c_float(0)
    for _ in range(20):
        blas(cublas.cublasSgemm_v2(handle, 0, 0, n, n, n, byref(one), a, n, b, n, byref(zero), c, n))
    cuda(cudart.cudaStreamSynchronize(stream))
    cuda(cudart.cudaGetLastError())
    # The inputs are as they were.
    back = (c_float * (n * n))()
    copy(back, a, 4 * n * n, DEVICE_TO_HOST)
    assert bytes(back) == bytes(ones)
    blas(cublas.cublasDestroy_v2(handle))
    cuda(cudart.cudaStreamDestroy(stream))
    for matrix in (a, b, c):
        cuda(cudart.cudaFree(matrix))


def main():
    device_properties()
    copies()
    sgemm()
    cuda(cudart.cudaDeviceReset())
    print("PASS cublas_check")


if __name__ == "__main__":
    main()
