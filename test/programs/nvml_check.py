#!/usr/bin/env python3
"""Asks libnvidia-ml.so.1 what monitoring and launchers ask, and checks the answers.

usage: nvml_check.py --gpus N --name NAME --driver VERSION --memory-mib MIB --cc MAJOR.MINOR
                     --device-id HEX --links N --sm-mhz MHZ --memory-mhz MHZ

Declares the little of NVML's interface that it needs, by ctypes.
"""

import argparse
import ctypes
import re
import sys

SUCCESS, NOT_SUPPORTED = 0, 3
CLOCK_SM, CLOCK_MEMORY = 1, 2
TEMPERATURE_GPU = 0
MIB = 1 << 20

Handle = ctypes.c_void_p


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


class PciInfo(ctypes.Structure):
    _fields_ = [("busIdLegacy", ctypes.c_char * 16), ("domain", ctypes.c_uint),
                ("bus", ctypes.c_uint), ("device", ctypes.c_uint),
                ("pciDeviceId", ctypes.c_uint), ("pciSubSystemId", ctypes.c_uint),
                ("busId", ctypes.c_char * 32)]


class Nvml:
    """Calls of the library; an unexpected status ends the program."""

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.library.nvmlErrorString.restype = ctypes.c_char_p

    def status(self, name, *arguments):
        return getattr(self.library, name)(*arguments)

    def call(self, name, *arguments):
        status = self.status(name, *arguments)
        if status != SUCCESS:
            sys.exit("FAIL nvml_check: %s: %s" %
                     (name, self.library.nvmlErrorString(status).decode()))

    def text(self, name, *before):
        buffer = ctypes.create_string_buffer(96)
        self.call(name, *before, buffer, ctypes.c_uint(len(buffer)))
        return buffer.value.decode()

    def number(self, name, *before, kind=ctypes.c_uint):
        value = kind()
        self.call(name, *before, ctypes.byref(value))
        return value.value


def check(what, got, wanted):
    if got != wanted:
        sys.exit("FAIL nvml_check: %s is %r, not %r" % (what, got, wanted))


def check_gpu(nvml, index, device, args):
    check("name", nvml.text("nvmlDeviceGetName", device), args.name)
    check("index", nvml.number("nvmlDeviceGetIndex", device), index)
    check("minor number", nvml.number("nvmlDeviceGetMinorNumber", device), index)

    memory = Memory()
    nvml.call("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
    check("total memory", memory.total, args.memory_mib * MIB)
    # The version-1 call counts the driver's own share as used, so that these add up.
    check("free + used memory", memory.free + memory.used, memory.total)

    pci = PciInfo()
    nvml.call("nvmlDeviceGetPciInfo_v3", device, ctypes.byref(pci))
    check("PCI device", pci.pciDeviceId, int(args.device_id, 16) << 16 | 0x10de)
    check("PCI bus id", pci.busId.decode(), "%08X:%02X:%02X.0" % (pci.domain, pci.bus, pci.device))
    again = Handle()
    nvml.call("nvmlDeviceGetHandleByPciBusId_v2", pci.busId, ctypes.byref(again))
    check("index by PCI bus id", nvml.number("nvmlDeviceGetIndex", again), index)

    major, minor = ctypes.c_int(), ctypes.c_int()
    nvml.call("nvmlDeviceGetCudaComputeCapability", device, ctypes.byref(major),
              ctypes.byref(minor))
    check("compute capability", "%d.%d" % (major.value, minor.value), args.cc)

    for kind, mhz in ((CLOCK_SM, args.sm_mhz), (CLOCK_MEMORY, args.memory_mhz)):
        check("highest clock %d" % kind,
              nvml.number("nvmlDeviceGetMaxClockInfo", device, ctypes.c_int(kind)), mhz)
        check("clock %d" % kind,
              nvml.number("nvmlDeviceGetClockInfo", device, ctypes.c_int(kind)), mhz)
    check("performance state", nvml.number("nvmlDeviceGetPerformanceState", device), 0)

    generation = nvml.number("nvmlDeviceGetMaxPcieLinkGeneration", device)
    check("PCIe generation", nvml.number("nvmlDeviceGetCurrPcieLinkGeneration", device),
          generation)
    check("PCIe width", nvml.number("nvmlDeviceGetCurrPcieLinkWidth", device), 16)

    current, pending = ctypes.c_uint(), ctypes.c_uint()
    nvml.call("nvmlDeviceGetEccMode", device, ctypes.byref(current), ctypes.byref(pending))
    check("ECC mode", (current.value, pending.value), (1, 1))
    nvml.call("nvmlDeviceGetMigMode", device, ctypes.byref(current), ctypes.byref(pending))
    check("MIG mode", (current.value, pending.value), (0, 0))
    check("compute mode", nvml.number("nvmlDeviceGetComputeMode", device), 0)
    check("persistence mode", nvml.number("nvmlDeviceGetPersistenceMode", device), 1)

    # Not known, so not told.
    value = ctypes.c_uint()
    check("status of the temperature",
          nvml.status("nvmlDeviceGetTemperature", device, ctypes.c_int(TEMPERATURE_GPU),
                      ctypes.byref(value)), NOT_SUPPORTED)
    check("status of the power draw",
          nvml.status("nvmlDeviceGetPowerUsage", device, ctypes.byref(value)), NOT_SUPPORTED)


def check_links(nvml, device, links):
    """Every link is up and leads to a switch."""
    switches = set()
    for link in range(links):
        check("state of link %d" % link,
              nvml.number("nvmlDeviceGetNvLinkState", device, ctypes.c_uint(link)), 1)
        remote = PciInfo()
        nvml.call("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, ctypes.c_uint(link),
                  ctypes.byref(remote))
        check("vendor behind link %d" % link, remote.pciDeviceId & 0xffff, 0x10de)
        switches.add(remote.busId)
    if links and len(switches) < 2:
        sys.exit("FAIL nvml_check: all links lead to %s" % switches)
    return switches


def main():
    parser = argparse.ArgumentParser()
    for name in ("name", "driver", "cc", "device-id"):
        parser.add_argument("--" + name, required=True)
    for name in ("gpus", "memory-mib", "links", "sm-mhz", "memory-mhz"):
        parser.add_argument("--" + name, required=True, type=int)
    args = parser.parse_args()

    nvml = Nvml()
    nvml.call("nvmlInit_v2")
    check("driver version", nvml.text("nvmlSystemGetDriverVersion"), args.driver)
    check("GPU count", nvml.number("nvmlDeviceGetCount_v2"), args.gpus)
    devices, uuids, switches = [], set(), set()
    for index in range(args.gpus):
        device = Handle()
        nvml.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(device))
        devices.append(device)
        uuid = nvml.text("nvmlDeviceGetUUID", device)
        if not re.fullmatch("GPU(-[0-9a-f]+){5}", uuid):
            sys.exit("FAIL nvml_check: UUID %r" % uuid)
        uuids.add(uuid)
        check_gpu(nvml, index, device, args)
        switches |= check_links(nvml, device, args.links)
        status = ctypes.c_int()
        nvml.call("nvmlDeviceGetP2PStatus", devices[0], device, ctypes.c_int(0),
                  ctypes.byref(status))
        check("peer status", status.value, 0)
    check("number of different UUIDs", len(uuids), args.gpus)
    nvml.call("nvmlShutdown")
    print("PASS nvml_check: %d GPUs, %d switches" % (args.gpus, len(switches)))


if __name__ == "__main__":
    main()
