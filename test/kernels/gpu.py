"""CUDA's driver API and NVRTC by ctypes: compile a text, launch its kernels on NumPy arrays."""

import ctypes
import glob
import os
import site

import numpy as np

import recorded

PACKAGES = site.getsitepackages()[0]
INCLUDE = os.path.join(PACKAGES, "nvidia/cuda_runtime/include")
TRITON = os.path.join(PACKAGES, "triton/backends/nvidia/include")


class CudaError(RuntimeError):
    """A call of the driver that failed."""

    def __init__(self, call, code, text):
        super().__init__(f"{call}: {text}")
        self.code = code
        self.text = text


def library_of_nvrtc():
    return ctypes.CDLL(glob.glob(os.path.join(PACKAGES, "nvidia/cuda_nvrtc/lib/libnvrtc.so*"))[0])


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")] + [
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", ctypes.c_uint),
    ]


def three(dims):
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    return dims + (1,) * (3 - len(dims))


class Gpu:
    """The first device, with a context of its own."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(major), 75, device)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), 76, device)
        self.architecture = 10 * major.value + minor.value
        self.nvrtc = None

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(code, ctypes.byref(text))
            raise CudaError(name, code, (text.value or b"?").decode())

    def compile(self, source, name="kernels", options=()):
        """A module of a CUDA C++ text."""
        architecture = f"sm_{self.architecture}" + ("a" if self.architecture == 90 else "")
        key = recorded.key_of(source, [architecture, *options])
        cubin = recorded.given(key) or self.compiled(source, name, [f"--gpu-architecture={architecture}", *options])
        recorded.keep_module(key, cubin)
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        return Module(self, module, key)

    def compiled(self, source, name, options):
        if self.nvrtc is None:
            self.nvrtc = library_of_nvrtc()
        program = ctypes.c_void_p()
        self.nvrtc.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), (name + ".cu").encode(), 0, None, None
        )
        given = ["-std=c++17", "--device-int128", f"-I{INCLUDE}", *options, f"-I{TRITON}"]
        array = (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
        failed = self.nvrtc.nvrtcCompileProgram(program, len(given), array)
        size = ctypes.c_size_t()
        if failed:
            self.nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            self.nvrtc.nvrtcGetProgramLog(program, log)
            raise RuntimeError("NVRTC: " + log.value.decode()[:1500])
        self.nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        cubin = ctypes.create_string_buffer(size.value)
        self.nvrtc.nvrtcGetCUBIN(program, cubin)
        return cubin.raw

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 16)))
        return address.value

    def upload(self, array):
        address = self.allocate(array.nbytes)
        data = np.ascontiguousarray(array)
        self.call(
            "cuMemcpyHtoD_v2",
            ctypes.c_uint64(address),
            data.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(array.nbytes),
        )
        return address

    def download(self, address, array):
        self.call(
            "cuMemcpyDtoH_v2",
            array.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_uint64(address),
            ctypes.c_size_t(array.nbytes),
        )

    def free(self, address):
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def stream(self):
        """A new one."""
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)  # CU_STREAM_NON_BLOCKING
        return stream

    def synchronize(self):
        self.call("cuCtxSynchronize")


class Module:
    def __init__(self, gpu, handle, key):
        self.gpu, self.handle, self.key = gpu, handle, key

    def set_symbol(self, name, array):
        """Writes a __constant__ or __device__ variable."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        self.gpu.call(
            "cuModuleGetGlobal_v2",
            ctypes.byref(address),
            ctypes.byref(size),
            self.handle,
            name.encode(),
        )
        data = np.ascontiguousarray(array)
        self.gpu.call(
            "cuMemcpyHtoD_v2", address, data.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(data.nbytes)
        )

    def launch(self, name, grid, block, *arguments, shared=0, cooperative=False, cluster=None, stream=None):
        """Arrays go to the device and come back changed; NumPy's scalars are passed by value."""
        gpu = self.gpu
        function = ctypes.c_void_p()
        gpu.call("cuModuleGetFunction", ctypes.byref(function), self.handle, name.encode())
        if shared > 48 << 10:
            gpu.call("cuFuncSetAttribute", function, 8, shared)
        arrays = [(gpu.upload(a), a) for a in arguments if isinstance(a, np.ndarray) and a.ndim]
        before = [recorded.digest(a) for _, a in arrays] if recorded.FOLDER else []
        addresses = iter(arrays)
        values = []
        for a in arguments:
            if isinstance(a, np.ndarray) and a.ndim:
                values.append(np.uint64(next(addresses)[0]))
            else:
                values.append(a)
        kept = [np.array([v]) for v in values]
        pointers = (ctypes.c_void_p * max(len(kept), 1))(*(k.ctypes.data for k in kept))
        grid, block = three(grid), three(block)
        if cooperative:
            gpu.call("cuLaunchCooperativeKernel", function, *grid, *block, shared, stream, pointers)
        elif cluster:
            attribute = LaunchAttribute(id=4)
            attribute.value[:3] = three(cluster)
            config = LaunchConfig(*grid, *block, shared, stream, ctypes.pointer(attribute), 1)
            gpu.call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)
        else:
            gpu.call("cuLaunchKernel", function, *grid, *block, shared, stream, pointers, None)
        gpu.synchronize()
        for address, array in arrays:
            if array.flags.writeable:
                gpu.download(address, array)
            gpu.free(address)
        if recorded.FOLDER:
            recorded.keep_launch(self.key, name, before, [a for _, a in arrays])
