// cuInit and everything a program can ask about a device before it has a context.
//   --expect KEY=VALUE,...  compares device 0 with expected values. Keys: gpus, driver (e.g.
//   12040),
//     name, cc (9.0), mem_gib_min, mem_gib_max, any name of kNamed below, or attrN for attribute N.
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "test/tracees/tracee.h"

namespace {

constexpr struct {
  const char* name;
  CUdevice_attribute attribute;
} kNamed[] = {
    {"sm", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {"clock_khz", CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
    {"memory_clock_khz", CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE},
    {"bus_width", CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
    {"l2_bytes", CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    {"copy_engines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
    {"threads_per_sm", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
    {"blocks_per_sm", CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR},
    {"registers_per_sm", CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
    {"shared_per_sm", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
    {"shared_per_block", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
    {"shared_per_block_optin", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
    {"ecc", CU_DEVICE_ATTRIBUTE_ECC_ENABLED},
    {"pci_bus", CU_DEVICE_ATTRIBUTE_PCI_BUS_ID},
    {"pci_device", CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID},
    {"pci_domain", CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID},
    {"cluster_launch", CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH},
    {"managed", CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
    {"concurrent_managed", CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
    {"host_atomics", CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED},
    {"fp64_ratio", CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO},
    {"memory_pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
    {"vmm", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
    {"posix_fd", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED},
};

int Attribute(CUdevice device, int attribute) {
  int value = -1;
  const CUresult result =
      cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(attribute), device);
  if (result != CUDA_SUCCESS) Fail("attribute %d: %s", attribute, CudaErrorText(result).c_str());
  return value;
}

void CheckBeforeInit() {
  int count = -1;
  CUdevice device = -1;
  CUcontext context = nullptr;
  CU_EXPECT(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  CU_EXPECT(cuDeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
  CU_EXPECT(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
  int version = 0;
  CU_CHECK(cuDriverGetVersion(&version));  // The one question that needs no cuInit.
  CHECK_GE(version, 12000);
  CU_EXPECT(cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

void CheckBounds(int count) {
  CUdevice device = -1;
  CU_EXPECT(cuDeviceGet(&device, count), CUDA_ERROR_INVALID_DEVICE);
  CU_EXPECT(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
  int value = 0;
  CU_EXPECT(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, count),
            CUDA_ERROR_INVALID_DEVICE);
  CU_EXPECT(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(100000), 0),
            CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(cuDeviceGetByPCIBusId(&device, "not a bus id"), CUDA_ERROR_INVALID_VALUE);
}

void CheckDevice(CUdevice device) {
  char name[256] = "";
  CU_CHECK(cuDeviceGetName(name, sizeof name, device));
  CHECK_GT(strlen(name), 0u);
  size_t total = 0;
  CU_CHECK(cuDeviceTotalMem(&total, device));
  CHECK_GE(total, kGiB);

  // Every attribute of the oldest supported driver has a value; number 128 is younger than that.
  constexpr int kLastOf535 = 131;
  for (int i = 1; i <= kLastOf535; ++i) {
    if (i != 128) Attribute(device, i);
  }
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), 1024);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z), 64);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), 0x7fffffff);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y), 65535);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY), 65536);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK), 65536);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK), 49152);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY), 1);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS), 1);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED), 1);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH), 1);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_INTEGRATED), 0);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_TCC_DRIVER), 0);  // A Windows matter.
  CHECK_GT(Attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 0);
  CHECK_GT(Attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE), 0);
  CHECK_GT(Attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE), 0);
  CHECK_GT(Attribute(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH), 0);
  CHECK_GT(Attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE), 0);
  CHECK_GT(Attribute(device, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT), 0);
  CHECK_GT(Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), 49152);
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) +
               Attribute(device, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK),
           Attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));

  int major = 0;
  int minor = 0;
  CU_CHECK(cuDeviceComputeCapability(&major, &minor, device));
  CHECK_EQ(major, Attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  CHECK_EQ(minor, Attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  CHECK_EQ(Attribute(device, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH), major >= 9 ? 1 : 0);

  printf("device %d: %s, %zu MiB, compute capability %d.%d\n", device, name, total / kMiB, major,
         minor);
}

void CheckPci(CUdevice device) {
  char text[32] = "";
  CU_CHECK(cuDeviceGetPCIBusId(text, sizeof text, device));
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  unsigned function = 99;
  CHECK_EQ(sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function), 4);
  CHECK_EQ(function, 0u);
  CHECK_EQ(static_cast<int>(domain), Attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID));
  CHECK_EQ(static_cast<int>(bus), Attribute(device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID));
  CHECK_EQ(static_cast<int>(slot), Attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
  CUdevice found = -1;
  CU_CHECK(cuDeviceGetByPCIBusId(&found, text));
  CHECK_EQ(found, device);
  for (char* c = text; *c; ++c) *c = static_cast<char>(tolower(*c));
  CU_CHECK(cuDeviceGetByPCIBusId(&found, text));
  CHECK_EQ(found, device);
  // The short form, without the function.
  char shorter[32];
  snprintf(shorter, sizeof shorter, "%04x:%02x:%02x", domain, bus, slot);
  CU_CHECK(cuDeviceGetByPCIBusId(&found, shorter));
  CHECK_EQ(found, device);
}

void CheckPair(CUdevice a, CUdevice b) {
  int can = -1;
  CU_CHECK(cuDeviceCanAccessPeer(&can, a, b));
  int value = -1;
  if (a == b) {
    CHECK_EQ(can, 0);
    CU_EXPECT(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, a, b),
              CUDA_ERROR_INVALID_DEVICE);
    return;
  }
  CU_CHECK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, a, b));
  CHECK_EQ(value, can);
  CU_CHECK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, a, b));
  CHECK_GE(value, 0);
  CU_CHECK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, a, b));
  CHECK_LE(value, can);
  CU_CHECK(
      cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED, a, b));
  CHECK_LE(value, can);
}

void CheckExpectation(const std::string& key, const std::string& want, int count) {
  const double number = atof(want.c_str());
  size_t total = 0;
  CU_CHECK(cuDeviceTotalMem(&total, 0));
  const double gib = static_cast<double>(total) / static_cast<double>(kGiB);
  if (key == "gpus") {
    CHECK_EQ(count, static_cast<int>(number));
  } else if (key == "driver") {
    int version = 0;
    CU_CHECK(cuDriverGetVersion(&version));
    CHECK_EQ(version, static_cast<int>(number));
  } else if (key == "name") {
    char name[256] = "";
    CU_CHECK(cuDeviceGetName(name, sizeof name, 0));
    CHECK_EQ(std::string(name), want);
  } else if (key == "cc") {
    CHECK_EQ(std::to_string(Attribute(0, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)) + "." +
                 std::to_string(Attribute(0, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)),
             want);
  } else if (key == "mem_gib_min") {
    CHECK_GE(gib, number);
  } else if (key == "mem_gib_max") {
    CHECK_LE(gib, number);
  } else {
    int attribute = key.compare(0, 4, "attr") == 0 ? atoi(key.c_str() + 4) : 0;
    for (const auto& named : kNamed) {
      if (key == named.name) attribute = named.attribute;
    }
    if (attribute == 0) Fail("--expect: unknown key %s", key.c_str());
    const int got = Attribute(0, attribute);
    if (got != static_cast<int>(number)) {
      Fail("%s (attribute %d) is %d, not %s", key.c_str(), attribute, got, want.c_str());
    }
  }
}

}  // namespace

TRACEE(init_attributes) {
  CheckBeforeInit();
  CU_CHECK(cuInit(0));
  CU_CHECK(cuInit(0));  // May be repeated.
  int count = 0;
  CU_CHECK(cuDeviceGetCount(&count));
  CHECK_GE(count, 1);
  CheckBounds(count);
  std::set<std::string> uuids;
  std::set<std::string> buses;
  for (int i = 0; i < count; ++i) {
    CUdevice device = -1;
    CU_CHECK(cuDeviceGet(&device, i));
    CheckDevice(device);
    CheckPci(device);
    CUuuid uuid;
    CU_CHECK(cuDeviceGetUuid(&uuid, device));
    uuids.insert(std::string(uuid.bytes, sizeof uuid.bytes));
    char bus[32];
    CU_CHECK(cuDeviceGetPCIBusId(bus, sizeof bus, device));
    buses.insert(bus);
  }
  CHECK_EQ(uuids.size(), static_cast<size_t>(count));
  CHECK_EQ(uuids.count(std::string(16, '\0')), 0u);
  CHECK_EQ(buses.size(), static_cast<size_t>(count));
  for (int a = 0; a < count; ++a) {
    for (int b = 0; b < count; ++b) CheckPair(a, b);
  }
  for (const auto& named : kNamed) {
    printf("%s=%d\n", named.name, Attribute(0, named.attribute));
  }
  if (args.Has("all")) {
    for (int i = 1; i <= 160; ++i) {
      int value = 0;
      if (cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(i), 0) == CUDA_SUCCESS) {
        printf("attr%d=%d\n", i, value);
      }
    }
  }
  for (const auto& [key, value] : args.List("expect")) CheckExpectation(key, value, count);
}
