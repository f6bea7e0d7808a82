"""What NVML says of the GPU."""

import ctypes

from bench.ops import torch


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
