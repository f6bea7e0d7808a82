#!/usr/bin/env python3
"""What nvidia-smi and NVML say of the emulated machine, for both drivers.

usage: nvidia_smi_test.py PHANTORA_RUN NVML_CHECK

The expected texts are what HGX machines print. What cannot be known is N/A.
"""

import itertools
import re
import subprocess
import sys
import unittest

PHANTORA_RUN, NVML_CHECK = sys.argv[1:3]
DRIVERS = ("535.261.03", "550.163.01", "555.58.02")


class Gpu:
    def __init__(self, name, product, memory_mib, cc, device_id, links, sm_mhz, memory_mhz, watts,
                 generation, link_gb):
        self.name, self.product, self.memory_mib, self.cc = name, product, memory_mib, cc
        self.device_id, self.links = device_id, links
        self.sm_mhz, self.memory_mhz, self.watts = sm_mhz, memory_mhz, watts
        self.generation, self.link_gb = generation, link_gb


GPUS = (
    Gpu("a100-sxm4-80gb", "NVIDIA A100-SXM4-80GB", 81920, "8.0", "20b2", 12, 1410, 1593, 400, 4,
        "25 GB/s"),
    Gpu("h100-sxm5-80gb", "NVIDIA H100 80GB HBM3", 81559, "9.0", "2330", 18, 1980, 2619, 700, 5,
        "26.562 GB/s"),
    Gpu("h200-sxm5-141gb", "NVIDIA H200", 143771, "9.0", "2335", 18, 1980, 3201, 700, 5,
        "26.562 GB/s"),
)
H100 = GPUS[1]


def cases(gpus=GPUS, counts=(1,)):
    return itertools.product(DRIVERS, gpus, counts)


# Takes 3 GiB on GPU 0, then asks what nvidia-smi says of it.
ALLOCATE = """
import ctypes, os, subprocess
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(3 << 30)) == 0
for query in "--query-gpu=memory.used", "--query-compute-apps=pid,used_memory":
    print(subprocess.check_output(["nvidia-smi", query, "--format=csv,noheader,nounits"],
                                  text=True).strip().replace("\\n", ";"), end=" | ")
print(os.getpid())
"""


class NvidiaSmiTest(unittest.TestCase):
    def run_on(self, gpu, count, driver, *command):
        """The output; nothing may be unknown to Phantora."""
        result = subprocess.run(
            [PHANTORA_RUN, "--gpu", gpu.name, "--gpus", str(count), "--driver", driver, "--",
             *command], text=True, check=False, timeout=120, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertNotIn("not emulated", result.stdout)
        return result.stdout

    def test_list(self):
        for driver, gpu, count in cases(counts=(1, 2, 8, 16)):
            with self.subTest(driver=driver, gpu=gpu.name, count=count):
                lines = self.run_on(gpu, count, driver, "nvidia-smi", "-L").splitlines()
                self.assertEqual(len(lines), count)
                uuids = set()
                for index, line in enumerate(lines):
                    match = re.fullmatch(r"GPU %d: %s \(UUID: (GPU-[0-9a-f-]{36})\)" %
                                         (index, re.escape(gpu.product)), line)
                    self.assertTrue(match, line)
                    uuids.add(match.group(1))
                self.assertEqual(len(uuids), count)

    def test_table(self):
        for driver, gpu, count in cases(counts=(2,)):
            with self.subTest(driver=driver, gpu=gpu.name, count=count):
                output = self.run_on(gpu, count, driver, "nvidia-smi")
                self.assertIn("Driver Version: " + driver, output)
                self.assertEqual(output.count(gpu.product), count)
                # Persistence mode; display; errors. Performance state. Compute and MIG mode.
                self.assertRegex(output, r"On +\|[0 ]+:1B:00\.0 Off \| +0 \|")
                self.assertRegex(output, r"\| N/A   N/A    P0 .*Default \|")
                self.assertRegex(output, r"\| +Disabled \|")
                self.assertIn("No running processes found", output)

    def test_query_csv(self):
        fields = ("name,memory.total,memory.used,driver_version,pci.bus_id,pcie.link.gen.current,"
                  "clocks.max.sm,clocks.max.mem,power.limit,temperature.gpu,utilization.gpu,"
                  "ecc.mode.current,compute_mode,persistence_mode")
        for driver, gpu, count in cases(counts=(1, 8)):
            with self.subTest(driver=driver, gpu=gpu.name, count=count):
                lines = self.run_on(gpu, count, driver, "nvidia-smi", "--query-gpu=" + fields,
                                    "--format=csv,noheader").splitlines()
                self.assertEqual(len(lines), count)
                expected = (gpu.product, gpu.memory_mib, driver, gpu.generation, gpu.sm_mhz,
                            gpu.memory_mhz, gpu.watts)
                self.assertEqual(lines[0], "%s, %d MiB, 0 MiB, %s, 00000000:1B:00.0, %d, %d MHz, "
                                 "%d MHz, %d.00 W, [N/A], [N/A], Enabled, Default, Enabled" %
                                 expected)

    def test_query_all(self):
        for driver, gpu, count in cases(counts=(2,)):
            with self.subTest(driver=driver, gpu=gpu.name, count=count):
                output = self.run_on(gpu, count, driver, "nvidia-smi", "-q")
                values = {}
                for line in output.splitlines():
                    key, colon, value = line.partition(" : ")
                    if colon:
                        values.setdefault(key.strip(), []).append(value.strip())
                for key, value in (("Product Name", gpu.product), ("Product Brand", "NVIDIA"),
                                   ("Persistence Mode", "Enabled"), ("Accounting Mode", "Disabled"),
                                   ("GSP Firmware Version", driver), ("Performance State", "P0"),
                                   ("Fan Speed", "N/A"), ("GPU Current Temp", "N/A"),
                                   ("Bus Id", "00000000:1B:00.0"), ("Compute Mode", "Default"),
                                   ("Reset Required", "No")):
                    self.assertEqual(values[key][0], value, key)
                for key in ("Graphics", "SM"):  # now, and the highest
                    self.assertIn("%d MHz" % gpu.sm_mhz, values[key])
                self.assertIn("%d MiB" % gpu.memory_mib, values["Total"])
                self.assertEqual(output.count("DRAM Uncorrectable             : 0") +
                                 output.count("DRAM Uncorrectable            : 0"), 2 * count)

    def test_topology(self):
        for driver, gpu, count in cases(counts=(2, 8)):
            with self.subTest(driver=driver, gpu=gpu.name, count=count):
                output = self.run_on(gpu, count, driver, "nvidia-smi", "topo", "-m")
                for index in range(count):
                    row = re.search(r"^GPU%d\t(.*)$" % index, output, re.MULTILINE)
                    self.assertTrue(row, output)
                    cells = [cell.strip() for cell in row.group(1).split("\t")[:count]]
                    expected = ["NV%d" % gpu.links] * count
                    expected[index] = "X"
                    self.assertEqual(cells, expected)

    def test_nvlinks(self):
        for driver, gpu, count in cases(counts=(2,)):
            with self.subTest(driver=driver, gpu=gpu.name, count=count):
                output = self.run_on(gpu, count, driver, "nvidia-smi", "nvlink", "-s")
                self.assertEqual(output.count("\t Link "), gpu.links * count)
                self.assertEqual(output.count(gpu.link_gb), gpu.links * count)

    def test_monitors_end(self):
        for driver, gpu, count in cases(gpus=(H100,), counts=(2,)):
            with self.subTest(driver=driver, gpu=gpu.name, count=count):
                for monitor in ("pmon", "dmon"):
                    self.assertIn("# gpu", self.run_on(gpu, count, driver, "nvidia-smi", monitor,
                                                       "-c", "1"))

    def test_memory_and_processes(self):
        for driver, gpu, count in cases(counts=(2,)):
            with self.subTest(driver=driver, gpu=gpu.name, count=count):
                output = self.run_on(gpu, count, driver, "python3", "-c", ALLOCATE)
                used, process, pid = output.splitlines()[0].split(" | ")
                first, second = (int(mib) for mib in used.split(";"))
                self.assertTrue(3072 < first < 4096, output)
                self.assertEqual(second, 0)
                listed, mib = (int(number) for number in process.split(","))
                self.assertEqual(listed, int(pid))
                self.assertTrue(3072 <= mib <= first, output)

    def test_nvml(self):
        for driver, gpu, count in cases(counts=(1, 8)):
            with self.subTest(driver=driver, gpu=gpu.name, count=count):
                output = self.run_on(
                    gpu, count, driver, "python3", NVML_CHECK, "--gpus", str(count), "--name",
                    gpu.product, "--driver", driver, "--memory-mib", str(gpu.memory_mib), "--cc",
                    gpu.cc, "--device-id", gpu.device_id, "--links", str(gpu.links), "--sm-mhz",
                    str(gpu.sm_mhz), "--memory-mhz", str(gpu.memory_mhz))
                self.assertIn("PASS nvml_check", output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
