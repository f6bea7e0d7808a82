#!/usr/bin/env python3
"""Calls every function of nvidia-ml-py, and prints what each one answers: its name, and "ok" with the value or the error.

Arguments are chosen by their names. A function whose parameter is a structure that nobody here makes is "not called".
"""

import ctypes
import inspect

import pynvml

# What is called last, or has no answer of the driver in it.
LAST = ("nvmlDeviceDiscoverGpus", "nvmlDeviceRemoveGpu", "nvmlDeviceRemoveGpu_v2", "nvmlEventSetFree", "nvmlGpmSampleFree",
        "nvmlShutdown")
OF_PYTHON = ("nvmlErrorString", "nvmlExceptionClass", "nvmlStructToFriendlyObject", "nvmlFriendlyObjectToStruct", "nvmlInit",
             "nvmlInitWithFlags")


class Choice:
    def __init__(self):
        self.devices = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        self.by_name = {
            "index": 0, "uuid": pynvml.nvmlDeviceGetUUID(self.devices[0]),
            "pciBusId": pynvml.nvmlDeviceGetPciInfo(self.devices[0]).busId, "serial": "0",
            "eventSet": pynvml.nvmlEventSetCreate(), "fieldIds": [pynvml.NVML_FI_DEV_ECC_CURRENT],
            "gpmSample": pynvml.nvmlGpmSampleAlloc(), "cpuSetSize": 1, "nodeSetSize": 1, "timeoutms": 1, "timeStamp": 0,
        }

    def of(self, name, position):
        if name in ("handle", "device", "device1", "handle1", "migDevice"):
            return self.devices[0]
        if name in ("device2", "handle2"):
            return self.devices[-1]
        return self.by_name.get(name, 0)


def answer(function, arguments):
    try:
        value = function(*arguments)
    except pynvml.NVMLError as error:
        return next((name for name in dir(pynvml) if name.startswith("NVML_ERROR_")
                     and getattr(pynvml, name) == error.value), str(error.value)), ""
    except (TypeError, AttributeError, ctypes.ArgumentError, ValueError) as error:
        return "not called", type(error).__name__
    return "ok", repr(value)


def main():
    pynvml.nvmlInit()
    choice = Choice()
    names = [name for name, function in inspect.getmembers(pynvml, inspect.isfunction)
             if name.startswith("nvml") and name not in OF_PYTHON]
    for name in sorted(names, key=lambda name: (name in LAST, name)):
        function = getattr(pynvml, name)
        parameters = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        outcome, value = answer(function, [choice.of(p.name, i) for i, p in enumerate(parameters)])
        print(f"{name}\t{outcome}\t{value[:100]}", flush=True)


if __name__ == "__main__":
    main()
