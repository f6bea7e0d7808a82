// A rank that does its worst: a seeded stream of random, mutated and boundary
// calls to the emulated driver, and random pushbuffers, from many threads of
// processes that are killed in the middle of it.
//   phantora-run -- hostile_tracee [--seed S] [--seconds T] [--count N] [--greedy]
//                                  [--beside PROGRAM]
// It passes if the emulated driver still serves it when N calls are made or T
// seconds are over. --beside runs a well-behaved program over and over meanwhile,
// which must succeed every time. --greedy also takes as much as it is given. The
// same seed makes the same decisions in every thread; how threads interleave is
// up to the machine.
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/abi/generated/rm_controls.h"
#include "trap/abi/generated/uvm_ioctl.h"
#include "trap/abi/methods.h"

namespace {

using namespace phantora::abi;  // NOLINT: NVIDIA's names

// --- Numbers ------------------------------------------------------------------

struct KnownControl {
  uint32_t command, size;
};
// Every control that was implemented when this was written, with the size of its
// parameters in each interface.
constexpr KnownControl kControls[] = {
    {0x101, 40},        {0x102, 104},       {0x127, 168},        {0x127, 176},
    {0x12b, 4252},      {0x12b, 8348},      {0x136, 4},          {0x13a, 1352},
    {0x1f0, 4},         {0x201, 128},       {0x202, 40},         {0x204, 4},
    {0x205, 32},        {0x214, 256},       {0x215, 132},        {0x216, 128},
    {0x21b, 12},        {0x275, 268},       {0x279, 12},         {0x27b, 4},
    {0x289, 4},         {0xa04, 2244},      {0xd01, 12},         {0xd04, 12},
    {0x3d05, 24},       {0x3d06, 20},       {0x3d08, 76},        {0x3d08, 80},
    {0x3d0b, 2128},     {0x3d0c, 652},      {0x410110, 16},      {0x800201, 16},
    {0x800280, 4},      {0x800288, 4},      {0x800289, 4},       {0x80028b, 1},
    {0x80028e, 1},      {0x800292, 644},    {0x800292, 700},     {0x800294, 4},
    {0x801109, 48},     {0x801110, 448},    {0x801110, 472},     {0x801307, 3},
    {0x801402, 3},      {0x80170d, 24},     {0x801806, 192},     {0x801909, 1},
    {0x809909, 1},      {0x900107, 8},      {0x20800102, 516},   {0x20800102, 524},
    {0x20800110, 132},  {0x20800111, 64},   {0x20800119, 4},     {0x2080012f, 1024},
    {0x2080012f, 984},  {0x20800131, 4},    {0x20800133, 8},     {0x2080013f, 136},
    {0x20800142, 4},    {0x20800145, 0},    {0x20800146, 0},     {0x2080014a, 268},
    {0x20800170, 252},  {0x20800170, 260},  {0x20800175, 1800},  {0x20800175, 1864},
    {0x2080018b, 40},   {0x2080018d, 3812}, {0x2080018e, 14408}, {0x20800195, 260},
    {0x208001a3, 40},   {0x208001a3, 48},   {0x20800301, 20},    {0x20800403, 8},
    {0x20800406, 264},  {0x20801201, 32},   {0x20801210, 32},    {0x20801218, 16},
    {0x2080121b, 6168}, {0x20801227, 48},   {0x2080122a, 24},    {0x2080122b, 24},
    {0x20801230, 32},   {0x20801301, 16},   {0x20801303, 436},   {0x20801303, 444},
    {0x20801701, 16},   {0x20801702, 4},    {0x20801801, 16},    {0x20801802, 16},
    {0x20801803, 200},  {0x20801823, 420},  {0x2080182a, 104},   {0x2080182b, 28},
    {0x2080200a, 8},    {0x20802209, 4},    {0x2080220c, 0},     {0x20802210, 0},
    {0x20802a03, 8},    {0x20802a0a, 136},  {0x20802a0a, 68},    {0x20803001, 16},
    {0x20803002, 5896}, {0x20803601, 72},   {0x20803801, 1928},  {0x20808159, 332},
    {0x20808161, 952},  {0x20808162, 1},    {0x20809001, 8},     {0x20809009, 8},
    {0x20809038, 4},    {0x20809064, 520},  {0x2080a001, 16},    {0x2080a026, 532},
    {0x2080a084, 4},    {0x20810108, 992},  {0x83de0309, 4},     {0x83de030c, 4824},
    {0x83de0310, 16},   {0x906f0101, 16},   {0x906f0102, 12},    {0x906f0102, 16},
    {0x90e60102, 8},    {0xa06c0101, 2},    {0xa06c0103, 8},     {0xa06c0105, 8},
    {0xa06f0103, 2},    {0xa06f0104, 4},    {0xc36f0101, 16},    {0xc36f0108, 4},
    {0xc36f010a, 4},    {0xcb330101, 5},    {0xcb330101, 6},     {0xcb330104, 1},
};

constexpr uint32_t kEscapes[] = {
    NV_ESC_CARD_INFO,
    NV_ESC_REGISTER_FD,
    NV_ESC_ALLOC_OS_EVENT,
    NV_ESC_FREE_OS_EVENT,
    NV_ESC_STATUS_CODE,
    NV_ESC_CHECK_VERSION_STR,
    NV_ESC_IOCTL_XFER_CMD,
    NV_ESC_ATTACH_GPUS_TO_FD,
    NV_ESC_SYS_PARAMS,
    NV_ESC_NUMA_INFO,
    NV_ESC_WAIT_OPEN_COMPLETE,
    NV_ESC_RM_ALLOC_MEMORY,
    NV_ESC_RM_FREE,
    NV_ESC_RM_CONTROL,
    NV_ESC_RM_ALLOC,
    NV_ESC_RM_DUP_OBJECT,
    NV_ESC_RM_SHARE,
    NV_ESC_RM_IDLE_CHANNELS,
    NV_ESC_RM_MAP_MEMORY,
    NV_ESC_RM_VID_HEAP_CONTROL,
    NV_ESC_RM_UNMAP_MEMORY,
    NV_ESC_RM_GET_EVENT_DATA,
    NV_ESC_RM_MAP_MEMORY_DMA,
    NV_ESC_RM_UNMAP_MEMORY_DMA,
    NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO,
};

constexpr uint32_t kClasses[] = {
    NV01_ROOT,
    NV01_ROOT_CLIENT,
    NV01_DEVICE_0,
    NV20_SUBDEVICE_0,
    NV2081_BINAPI,
    FERMI_VASPACE_A,
    NV01_MEMORY_SYSTEM,
    NV01_MEMORY_LOCAL_USER,
    NV50_MEMORY_VIRTUAL,
    KEPLER_CHANNEL_GROUP_A,
    FERMI_CONTEXT_SHARE_A,
    AMPERE_CHANNEL_GPFIFO_A,
    HOPPER_CHANNEL_GPFIFO_A,
    HOPPER_USERMODE_A,
    AMPERE_DMA_COPY_A,
    HOPPER_DMA_COPY_A,
    AMPERE_COMPUTE_A,
    HOPPER_COMPUTE_A,
    NV01_EVENT_OS_EVENT,
    NV50_P2P,
    GT200_DEBUGGER,
    RM_USER_SHARED_DATA,
};

enum Kind {
  kOpenClose,
  kEscape,
  kMutated,
  kControl,
  kAlloc,
  kFree,
  kDup,
  kExport,
  kEvents,
  kUvm,
  kUvmMutated,
  kMap,
  kMemfd,
  kPushbuffer,
  kChannel,
  kPaths,
  kPass,
  kFork,
  kBomb,
  kKinds
};
constexpr const char* kKindNames[kKinds] = {
    "open and close", "random escapes", "mutated calls", "controls",    "allocations",
    "frees",          "duplications",   "exports",       "events",      "random UVM ioctls",
    "mutated UVM",    "mappings",       "memfd tricks",  "pushbuffers", "channels",
    "path calls",     "passed files",   "forks",         "bombs"};

// --- What all processes share -----------------------------------------------------

struct Shared {
  std::atomic<uint64_t> calls[kKinds];
  std::atomic<uint64_t> total, generations, kills, rigs;
  std::atomic<uint32_t> handles[256];  // clients and objects of all processes
  std::atomic<bool> stop;
  std::atomic<uint64_t> corrupted;   // files of others that could be written
  std::atomic<uint64_t> longest_ns;  // of a call that should take microseconds
};
Shared* shared;

uint64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

// SplitMix64: small, and good enough to reach every branch.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint32_t Below(uint64_t bound) { return static_cast<uint32_t>(Next() % bound); }
  bool OneIn(uint32_t n) { return Below(n) == 0; }
  template <typename T, size_t N>
  T Of(const T (&list)[N]) {
    return list[Below(N)];
  }
  uint64_t Boundary() {
    static constexpr uint64_t kEdges[] = {0,
                                          1,
                                          2,
                                          3,
                                          4,
                                          7,
                                          8,
                                          0xff,
                                          0x100,
                                          0xfff,
                                          0x1000,
                                          0x1001,
                                          0xffff,
                                          0x10000,
                                          0x1fffff,
                                          0x200000,
                                          0x7fffffff,
                                          0x80000000,
                                          0xffffffff,
                                          0x100000000,
                                          0x7fffffffffff,
                                          0x800000000000,
                                          0x1ffffffffffff,
                                          0x2000000000000,
                                          0x7fffffffffffffff,
                                          0x8000000000000000,
                                          0xfffffffffffff000,
                                          0xffffffffffffffff};
    const uint64_t edge = Of(kEdges);
    return OneIn(4) ? edge + Below(5) - 2 : edge;
  }

 private:
  uint64_t state_;
};

// --- A rig: everything that submitting work to a GPU needs ---------------------------

constexpr uint64_t kRingBytes = 4 << 20;
constexpr uint64_t kRingVa = 0x1000000000;
constexpr uint64_t kVidmemBytes = 8 << 20;
constexpr uint64_t kVidmemVa = 0x2000000000;
constexpr uint64_t kExternalVa = 0x3000000000;
constexpr uint64_t kTraceeVa = 0x3800000000;
constexpr uint32_t kRingEntries = 512;
// Offsets in the ring memory.
constexpr uint64_t kGpfifoAt = 0x0, kUserdAt = 0x8000, kNotifierAt = 0x10000, kPushAt = 0x40000,
                   kSemaphoresAt = 0x20000, kQmdsAt = 0x30000;
constexpr int kChannels = 4;

class Rig {
 public:
  Rig(uint64_t seed, bool hopper) : random(seed), hopper(hopper) {}

  int Rm(uint32_t number, void* block, uint32_t size) {
    return ioctl(control_fd, _IOC(_IOC_READ | _IOC_WRITE, 'F', number, size), block);
  }
  uint32_t Alloc(uint32_t parent, uint32_t handle, uint32_t class_id, void* params,
                 uint32_t params_size = 0) {
    NVOS64_PARAMETERS call{};
    call.hRoot = client;
    call.hObjectParent = parent;
    call.hObjectNew = handle;
    call.hClass = class_id;
    call.pAllocParms = reinterpret_cast<uint64_t>(params);
    call.paramsSize = params_size;
    if (Rm(NV_ESC_RM_ALLOC, &call, sizeof call) != 0) return 0;
    return call.status == 0 ? call.hObjectNew : 0;
  }
  uint32_t Control(uint32_t object, uint32_t command, void* params, uint32_t size) {
    NVOS54_PARAMETERS call{};
    call.hClient = client;
    call.hObject = object;
    call.cmd = command;
    call.params = reinterpret_cast<uint64_t>(params);
    call.paramsSize = size;
    return Rm(NV_ESC_RM_CONTROL, &call, sizeof call) == 0 ? call.status : ~0u;
  }
  void Free(uint32_t object) {
    NVOS00_PARAMETERS call{};
    call.hRoot = client;
    call.hObjectOld = object;
    Rm(NV_ESC_RM_FREE, &call, sizeof call);
  }
  uint32_t AllocMemory(uint32_t class_id, uint64_t size) {
    NV_MEMORY_ALLOCATION_PARAMS_V550 params{};  // longer than 535's
    params.size = size;
    return Alloc(device, 0, class_id, &params);
  }
  void* MapToHost(uint32_t memory, uint64_t size) {
    const int file = open("/dev/nvidia0", O_RDWR | O_CLOEXEC);
    nv_ioctl_nvos33_parameters_with_fd call{};
    call.params.hClient = client;
    call.params.hDevice = device;
    call.params.hMemory = memory;
    call.params.length = size;
    call.fd = file;
    void* mapped = MAP_FAILED;
    if (file >= 0 && Rm(NV_ESC_RM_MAP_MEMORY, &call, sizeof call) == 0 && call.params.status == 0) {
      mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    // Kept for tricks with the memfd; some are closed.
    if (file >= 0) {
      if (memory_files.size() < 32)
        memory_files.push_back(file);
      else
        close(file);
    }
    return mapped == MAP_FAILED ? nullptr : mapped;
  }
  bool MapToGpu(uint32_t memory, uint64_t va, uint64_t length, uint64_t offset = 0) {
    NVOS46_PARAMETERS call{};
    call.hClient = client;
    call.hDevice = device;
    call.hDma = va_space;
    call.hMemory = memory;
    call.offset = offset;
    call.length = length;
    call.dmaOffset = va;
    return Rm(NV_ESC_RM_MAP_MEMORY_DMA, &call, sizeof call) == 0 && call.status == 0;
  }

  bool Build();
  bool MakeChannel(int index);
  void Submit(int channel, uint64_t at, uint32_t words);

  Random random;
  const bool hopper;
  int control_fd = -1, gpu_fd = -1, uvm_fd = -1;
  uint32_t client = 0, device = 0, subdevice = 0, va_space = 0, group = 0, usermode = 0;
  uint32_t ring_memory = 0, vidmem = 0, tracee_memory = 0;
  uint8_t* ring = nullptr;
  uint8_t* vidmem_host = nullptr;
  uint8_t* own = nullptr;  // given to the GPU as an OS descriptor
  volatile uint32_t* doorbell = nullptr;
  uint32_t channels[kChannels] = {};
  uint32_t put[kChannels] = {};
  NvUuid uuid{};
  std::vector<int> memory_files;
  std::vector<uint32_t> objects;  // handles to play with
};

constexpr uint64_t kOwnBytes = 1 << 20;

bool Rig::Build() {
  control_fd = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
  gpu_fd = open("/dev/nvidia0", O_RDWR | O_CLOEXEC);
  uvm_fd = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
  if (control_fd < 0 || gpu_fd < 0 || uvm_fd < 0) return false;
  NVOS64_PARAMETERS root{};
  root.hClass = NV01_ROOT_CLIENT;
  if (Rm(NV_ESC_RM_ALLOC, &root, sizeof root) != 0 || root.status != 0) return false;
  client = root.hObjectNew;
  NV0080_ALLOC_PARAMETERS device_params{};
  device = Alloc(client, 0, NV01_DEVICE_0, &device_params);
  NV2080_ALLOC_PARAMETERS subdevice_params{};
  subdevice = Alloc(device, 0, NV20_SUBDEVICE_0, &subdevice_params);
  NV_VASPACE_ALLOCATION_PARAMETERS space_params{};
  va_space = Alloc(device, 0, FERMI_VASPACE_A, &space_params);
  if (device == 0 || subdevice == 0 || va_space == 0) return false;
  ring_memory = AllocMemory(NV01_MEMORY_SYSTEM, kRingBytes);
  vidmem = AllocMemory(NV01_MEMORY_LOCAL_USER, kVidmemBytes);
  if (ring_memory == 0) return false;
  ring = static_cast<uint8_t*>(MapToHost(ring_memory, kRingBytes));
  if (vidmem != 0) vidmem_host = static_cast<uint8_t*>(MapToHost(vidmem, kVidmemBytes));
  if (ring == nullptr || !MapToGpu(ring_memory, kRingVa, kRingBytes)) return false;
  if (vidmem != 0) MapToGpu(vidmem, kVidmemVa, kVidmemBytes);

  own = static_cast<uint8_t*>(
      mmap(nullptr, kOwnBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  nv_ioctl_nvos02_parameters_with_fd descriptor{};
  descriptor.params.hRoot = client;
  descriptor.params.hObjectParent = device;
  descriptor.params.hClass = NV01_MEMORY_SYSTEM_OS_DESCRIPTOR;
  descriptor.params.pMemory = reinterpret_cast<uint64_t>(own);
  descriptor.params.limit = kOwnBytes - 1;
  Rm(NV_ESC_RM_ALLOC_MEMORY, &descriptor, sizeof descriptor);
  tracee_memory = descriptor.params.hObjectNew;
  if (descriptor.params.status == 0) MapToGpu(tracee_memory, kTraceeVa, kOwnBytes);

  NV2080_CTRL_GPU_GET_GID_INFO_PARAMS gid{};
  gid.flags = 2;
  Control(subdevice, NV2080_CTRL_CMD_GPU_GET_GID_INFO, &gid, sizeof gid);
  memcpy(uuid.uuid, gid.data, sizeof uuid.uuid);
  UVM_INITIALIZE_PARAMS initialize{};
  ioctl(uvm_fd, UVM_INITIALIZE, &initialize);
  UVM_REGISTER_GPU_PARAMS gpu{};
  gpu.gpu_uuid = uuid;
  ioctl(uvm_fd, UVM_REGISTER_GPU, &gpu);
  UVM_REGISTER_GPU_VASPACE_PARAMS space{};
  space.gpuUuid = uuid;
  space.rmCtrlFd = control_fd;
  space.hClient = client;
  space.hVaSpace = va_space;
  ioctl(uvm_fd, UVM_REGISTER_GPU_VASPACE, &space);

  NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group_params{};
  group_params.hVASpace = va_space;
  group_params.engineType = 1;
  group = Alloc(device, 0, KEPLER_CHANNEL_GROUP_A, &group_params);
  usermode = Alloc(subdevice, 0, HOPPER_USERMODE_A, nullptr);
  if (usermode != 0) {
    doorbell = static_cast<volatile uint32_t*>(MapToHost(usermode, kUsermodeBytes));
  }
  if (group == 0 || doorbell == nullptr) return false;
  for (int i = 0; i < kChannels; ++i) {
    if (!MakeChannel(i)) return false;
  }
  objects = {client, device,        subdevice, va_space, ring_memory,
             vidmem, tracee_memory, group,     usermode};
  for (uint32_t object : objects) shared->handles[random.Below(256)] = object;
  ++shared->rigs;
  return true;
}

bool Rig::MakeChannel(int index) {
  if (channels[index] != 0) Free(channels[index]);
  memset(ring + kNotifierAt + index * 0x100, 0, 0x100);
  NV_CHANNEL_ALLOC_PARAMS params{};
  params.hObjectError = ring_memory;
  params.gpFifoOffset = kRingVa + kGpfifoAt + static_cast<uint64_t>(index) * 0x1000;
  params.gpFifoEntries = kRingEntries;
  params.hVASpace = va_space;
  params.hUserdMemory[0] = ring_memory;
  params.userdOffset[0] = kUserdAt + static_cast<uint64_t>(index) * 0x200;
  params.engineType = index % 2 == 0 ? 1 : 11;
  // Half of them alone, so that they do not all die with the first.
  const uint32_t parent = index < 2 ? device : group;
  channels[index] =
      Alloc(parent, 0, hopper ? HOPPER_CHANNEL_GPFIFO_A : AMPERE_CHANNEL_GPFIFO_A, &params);
  put[index] = 0;
  if (channels[index] == 0) return false;
  NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS schedule{};
  Control(channels[index], NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, &schedule, sizeof schedule);
  return true;
}

void Rig::Submit(int channel, uint64_t at, uint32_t words) {
  auto* entries = reinterpret_cast<uint64_t*>(ring + kGpfifoAt + channel * 0x1000);
  entries[put[channel] % kRingEntries] =
      ((kRingVa + at) & kGpEntryAddressMask) | static_cast<uint64_t>(words) << kGpEntryLengthShift;
  put[channel] = (put[channel] + 1) % kRingEntries;
  auto* userd = reinterpret_cast<volatile uint32_t*>(ring + kUserdAt + channel * 0x200);
  userd[kUserdGpPut / 4] = put[channel];
  *(doorbell + kDoorbell / 4) = 1;
}

// --- Pushbuffers -------------------------------------------------------------------

class Pushbuffer {
 public:
  Pushbuffer(Random& random, uint8_t* at, uint64_t bytes)
      : random_(random), words_(reinterpret_cast<uint32_t*>(at)), room_(bytes / 4) {}
  void Word(uint64_t word) {
    if (used_ < room_) words_[used_++] = static_cast<uint32_t>(word);
  }
  void Method(uint32_t subchannel, uint32_t method, uint64_t data) {
    Word(kSecOpIncMethod << 29 | 1u << 16 | subchannel << 13 | method >> 2);
    Word(data);
  }
  void Address(uint32_t subchannel, uint32_t upper, uint64_t address) {
    Word(kSecOpIncMethod << 29 | 2u << 16 | subchannel << 13 | upper >> 2);
    Word(address >> 32);
    Word(address);
  }
  uint32_t used() const { return used_; }

  uint64_t SomeAddress() {
    switch (random_.Below(10)) {
      case 0:
        return kVidmemVa + random_.Below(kVidmemBytes);
      case 1:
        return kVidmemVa + kVidmemBytes - random_.Below(64);
      case 2:
        return kTraceeVa + random_.Below(kOwnBytes);
      case 3:
        return kExternalVa + random_.Below(1 << 22);
      case 4:
        return kRingVa + kSemaphoresAt + random_.Below(0x1000) * 4;
      case 5:
        return kRingVa + random_.Below(kRingBytes);  // GPFIFO, USERD, notifiers, itself
      case 6:
        return kRingVa + kUserdAt + random_.Below(0x800);
      case 7:
        return kRingVa + kQmdsAt + random_.Below(16) * 0x200;
      case 8:
        return kVidmemVa + (uint64_t{random_.Below(kVidmemBytes / 4096)} << 12);
      default:
        return random_.OneIn(8) ? random_.Next() : kVidmemVa + random_.Below(1 << 16) * 8;
    }
  }
  uint64_t SomeSize() {
    switch (random_.Below(8)) {
      case 0:
        return random_.Boundary();
      case 1:
        return random_.Next();
      case 2:
        return random_.Below(kVidmemBytes);
      case 3:
        return 0;
      default:
        return random_.Below(4096);
    }
  }
  void Copy() {
    const uint32_t sub = 4;
    Address(sub, copy::kOffsetInUpper, SomeAddress());
    Address(sub, copy::kOffsetOutUpper, SomeAddress());
    Method(sub, copy::kPitchIn, SomeSize());
    Method(sub, copy::kPitchOut, SomeSize());
    Method(sub, copy::kLineLengthIn, SomeSize());
    Method(sub, copy::kLineCount, random_.OneIn(3) ? SomeSize() : random_.Below(64));
    if (random_.OneIn(2)) Method(sub, copy::kRemapComponents, random_.Next());
    if (random_.OneIn(4)) Method(sub, copy::kRemapConstA, random_.Next());
    Address(sub, copy::kSemaphoreA, SomeAddress());
    uint32_t flags = static_cast<uint32_t>(random_.Next());
    if (!random_.OneIn(4)) flags = (flags & ~0x3000u) | 0x180;  // virtual, pitch
    Method(sub, copy::kLaunchDma, flags);
  }
  void Inline() {
    const uint32_t sub = 1;
    const uint32_t length =
        random_.OneIn(4) ? static_cast<uint32_t>(SomeSize()) : random_.Below(256);
    Method(sub, compute::kLineLengthIn, length);
    Method(sub, compute::kLineCount, random_.OneIn(3) ? SomeSize() : 1 + random_.Below(4));
    Address(sub, compute::kOffsetOutUpper, SomeAddress());
    Method(sub, compute::kPitchOut, SomeSize());
    Method(sub, compute::kLaunchDma, random_.Next());
    // The registers may change under the transfer.
    if (random_.OneIn(4)) Method(sub, compute::kLineLengthIn, random_.Below(3));
    if (random_.OneIn(8)) Method(sub, compute::kLineCount, SomeSize());
    const uint32_t count = random_.Below(200);
    const uint32_t op = random_.OneIn(2) ? kSecOpNonIncMethod : kSecOpOneInc;
    Word(op << 29 | count << 16 | sub << 13 | compute::kLoadInlineData >> 2);
    for (uint32_t i = 0; i < count; ++i) Word(random_.Next());
  }
  void Launch() {
    const uint32_t sub = 1;
    const uint64_t qmd = kRingVa + kQmdsAt + random_.Below(16) * 0x200;
    Method(sub, compute::kSendPcasA, (random_.OneIn(16) ? SomeAddress() : qmd) >> 8);
    if (random_.OneIn(2)) {
      Method(sub, compute::kSendSignalingPcasB, random_.Below(4));
    } else {
      Method(sub, compute::kSendSignalingPcas2B, random_.Below(16));
    }
  }
  void InlineQmd() {
    const uint32_t sub = 1;
    const uint64_t qmd = kRingVa + kQmdsAt + random_.Below(16) * 0x200;
    Word(kSecOpIncMethod << 29 | 98u << 16 | sub << 13 | compute::kInlineQmdAddressA >> 2);
    Word(qmd >> 40);
    Word(qmd >> 8);
    for (int i = 0; i < 96; ++i) Word(random_.OneIn(3) ? random_.Next() : 0);
  }
  void HostSemaphore() {
    Address(0, host::kSemAddrLo, 0);
    const uint64_t address = SomeAddress();
    Method(0, host::kSemAddrLo, address);
    Method(0, host::kSemAddrHi, address >> 32);
    Method(0, host::kSemPayloadLo, random_.Below(4));
    uint32_t execute = static_cast<uint32_t>(random_.Next());
    if (!random_.OneIn(8)) execute = (execute & ~7u) | host::kRelease;
    Method(0, host::kSemExecute, execute);
  }
  void Report() {
    const uint32_t sub = 1;
    Address(sub, compute::kSetReportSemaphoreA, SomeAddress());
    Method(sub, compute::kSetReportSemaphoreD, random_.Next());
    Method(sub, compute::kReportSemaphoreExecute, random_.Next());
  }
  void Fill() {
    Method(1, host::kSetObject,
           random_.OneIn(8) ? random_.Next() : (random_.OneIn(2) ? 0xcbc0 : 0xc6c0));
    Method(4, host::kSetObject, random_.OneIn(8) ? random_.Next() : 0xc8b5);
    const uint32_t pieces = 1 + random_.Below(12);
    for (uint32_t i = 0; i < pieces; ++i) {
      switch (random_.Below(12)) {
        case 0:
        case 1:
        case 2:
          Copy();
          break;
        case 3:
        case 4:
          Inline();
          break;
        case 5:
        case 6:
          Launch();
          break;
        case 7:
          InlineQmd();
          break;
        case 8:
          HostSemaphore();
          break;
        case 9:
          Report();
          break;
        case 10:  // a valid header, any method
          Word((1 + random_.Below(7)) << 29 | random_.Below(64) << 16 | random_.Below(8) << 13 |
               random_.Below(0x1000));
          break;
        default:
          if (random_.OneIn(4))
            Word(random_.Next());
          else
            Method(0, host::kNonStallInterrupt, 0);
          break;
      }
    }
  }

 private:
  Random& random_;
  uint32_t* const words_;
  const uint32_t room_;
  uint32_t used_ = 0;
};

// QMDs that know each other, also in cycles. Some words are random.
void WriteQmds(Rig& rig) {
  Random& random = rig.random;
  for (uint64_t i = 0; i < 16; ++i) {
    uint32_t qmd[128] = {};
    for (uint32_t& word : qmd) {
      if (random.OneIn(6)) word = static_cast<uint32_t>(random.Next());
    }
    const uint32_t next =
        static_cast<uint32_t>((kRingVa + kQmdsAt + random.Below(16) * 0x200) >> 8);
    if (rig.hopper) {
      qmd[18] = random.OneIn(16) ? static_cast<uint32_t>(random.Next()) : 4 << 4;  // version
      qmd[0] =
          random.Below(6) << 23 | (qmd[0] & 0x40000000) | (random.OneIn(4) ? random.Below(4) : 0);
      qmd[11] = random.OneIn(2) ? 0x10000 | random.Below(8) << 17 : 0;  // dependent 0
      qmd[14] = next;
      for (int r = 0; r < 3; ++r) {
        const uint64_t address = kRingVa + kSemaphoresAt + random.Below(0x400) * 16;
        if (!random.OneIn(16)) {
          qmd[20 + r * 4] = static_cast<uint32_t>(address);
          qmd[21 + r * 4] = static_cast<uint32_t>(address >> 32);
        }
      }
    } else {
      qmd[18] =
          random.OneIn(16) ? static_cast<uint32_t>(random.Next()) : (random.OneIn(2) ? 3 : 2) << 4;
      qmd[12] = random.Below(4);  // the grid's width
      qmd[15] = next;
      qmd[16] = random.OneIn(2) ? 1 | random.Below(8) << 1 : 0;
    }
    memcpy(rig.ring + kQmdsAt + i * 0x200, qmd, sizeof qmd);
  }
}

// --- The calls ------------------------------------------------------------------------

// Parameters, in pages of their own: what a call writes beyond them meets a hole.
class Block {
 public:
  Block() {
    void* at = mmap(nullptr, kSize + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(at, kSize, PROT_READ | PROT_WRITE);
    bytes_ = static_cast<uint8_t*>(at);
  }
  ~Block() { munmap(bytes_, kSize + 4096); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  uint8_t* data() { return bytes_; }
  size_t size() const { return kSize; }

 private:
  static constexpr size_t kSize = 1 << 16;
  uint8_t* bytes_;
};

class Attacker {
 public:
  Attacker(Rig& rig, uint64_t seed, bool greedy) : rig_(rig), random_(seed), greedy_(greedy) {}

  void One();

 private:
  uint32_t SomeHandle() {
    switch (random_.Below(6)) {
      case 0:
        return shared->handles[random_.Below(256)];
      case 1:
        return static_cast<uint32_t>(random_.Boundary());
      case 2:
        return 0xc1d00001 + random_.Below(64);
      case 3:
        return 0xcaf00000 + random_.Below(64);
      default:
        return rig_.objects.empty() ? 0 : rig_.objects[random_.Below(rig_.objects.size())];
    }
  }
  int SomeFile() {
    switch (random_.Below(6)) {
      case 0:
        return rig_.gpu_fd;
      case 1:
        return rig_.uvm_fd;
      case 2:
        return static_cast<int>(random_.Below(64));
      case 3:
        return rig_.memory_files.empty()
                   ? -1
                   : rig_.memory_files[random_.Below(rig_.memory_files.size())];
      default:
        return rig_.control_fd;
    }
  }
  uint64_t SomePointer() {
    switch (random_.Below(8)) {
      case 0:
        return 0;
      case 1:
        return random_.Next();
      case 2:
        return reinterpret_cast<uint64_t>(block_.data() + block_.size()) - random_.Below(64);
      case 3:
        return reinterpret_cast<uint64_t>(&Function);  // not writable
      case 4:
        return reinterpret_cast<uint64_t>(rig_.ring) + random_.Below(kRingBytes);
      default:
        return reinterpret_cast<uint64_t>(block_.data() + 32768);
    }
  }
  static void Function() {}
  void Noise(size_t bytes) {
    bytes = bytes < block_.size() ? bytes : block_.size();
    const bool sparse = random_.OneIn(2);
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
      uint32_t word = 0;
      if (!sparse || random_.OneIn(4)) {
        switch (random_.Below(5)) {
          case 0:
            word = static_cast<uint32_t>(random_.Next());
            break;
          case 1:
            word = static_cast<uint32_t>(random_.Boundary());
            break;
          case 2:
            word = SomeHandle();
            break;
          case 3:
            word = random_.Below(300);
            break;
          default:
            break;
        }
      }
      memcpy(block_.data() + i, &word, 4);
    }
  }
  void Flip(void* bytes, size_t size) {
    auto* at = static_cast<uint8_t*>(bytes);
    const uint32_t flips = random_.Below(4);
    for (uint32_t i = 0; i < flips && size > 0; ++i) {
      if (random_.OneIn(2)) {
        at[random_.Below(size)] ^= 1 << random_.Below(8);
      } else if (size >= 8) {
        const uint64_t value = random_.Boundary();
        memcpy(at + random_.Below(size / 4 - 1) * 4, &value, random_.OneIn(2) ? 4 : 8);
      }
    }
  }

  void OpenClose();
  void RandomEscape();
  void MutatedEscape();
  void RandomControl();
  void RandomAlloc();
  void Duplicate();
  void Exports();
  void Events();
  void RandomUvm();
  void MutatedUvm();
  void Mappings();
  void Memfds();
  void Push();
  void Channels();
  void Paths();
  void Pass();
  void Fork();
  void Bomb();

  Rig& rig_;
  Random random_;
  const bool greedy_;
  Block block_;
};

void Attacker::OpenClose() {
  static constexpr const char* kPaths[] = {"/dev/nvidiactl",       "/dev/nvidia0", "/dev/nvidia1",
                                           "/dev/nvidia-uvm",      "/dev/nvidia7", "/dev/nvidia0/x",
                                           "/dev/nvidia-uvm-tools"};
  const int file = open(random_.Of(kPaths), random_.OneIn(8) ? O_RDONLY : O_RDWR);
  if (file < 0) return;
  Noise(64);
  NVOS64_PARAMETERS root{};
  root.hClass = NV01_ROOT_CLIENT;
  // Handles of one's own choice, also such as others will get.
  root.hObjectNew = random_.OneIn(2) ? 0 : SomeHandle();
  ioctl(file, _IOC(_IOC_READ | _IOC_WRITE, 'F', NV_ESC_RM_ALLOC, sizeof root), &root);
  if (root.status == 0) shared->handles[random_.Below(256)] = root.hObjectNew;
  const int copy = random_.OneIn(4) ? dup(file) : -1;
  close(file);
  if (copy >= 0) {
    ioctl(copy, _IOC(_IOC_READ | _IOC_WRITE, 'F', random_.Of(kEscapes), random_.Below(64)),
          block_.data());
    close(copy);
  }
}

void Attacker::RandomEscape() {
  const uint32_t number = random_.OneIn(4) ? random_.Below(256) : random_.Of(kEscapes);
  static constexpr uint32_t kSizes[] = {0,  4,  8,  12, 16, 20,  24,  28,  32,    40,
                                        48, 56, 64, 72, 80, 168, 184, 200, 0x3fff};
  const uint32_t size = random_.OneIn(3) ? random_.Below(1 << 14) : random_.Of(kSizes);
  Noise(size);
  ioctl(SomeFile(), _IOC(_IOC_READ | _IOC_WRITE, 'F', number, size),
        random_.OneIn(4) ? reinterpret_cast<void*>(SomePointer()) : block_.data());
}

// A call that would succeed, but for a few bits.
void Attacker::MutatedEscape() {
  switch (random_.Below(9)) {
    case 0: {
      NVOS46_PARAMETERS call{};
      call.hClient = rig_.client;
      call.hDevice = rig_.device;
      call.hDma = rig_.va_space;
      call.hMemory = SomeHandle();
      call.offset = random_.Below(1024) * 4096;
      call.length = random_.OneIn(4) ? random_.Boundary() : random_.Below(64) * 4096;
      call.dmaOffset = kExternalVa + random_.Below(1024) * 4096;
      Flip(&call, sizeof call);
      rig_.Rm(NV_ESC_RM_MAP_MEMORY_DMA, &call, sizeof call);
      break;
    }
    case 1: {
      NVOS32_PARAMETERS_V550 call{};
      call.hRoot = rig_.client;
      call.hObjectParent = rig_.device;
      static constexpr uint32_t kFunctions[] = {NVOS32_FUNCTION_ALLOC_SIZE, NVOS32_FUNCTION_FREE,
                                                NVOS32_FUNCTION_INFO,
                                                NVOS32_FUNCTION_ALLOC_OS_DESCRIPTOR};
      call.function = random_.Of(kFunctions);
      call.data.AllocSize.size = random_.OneIn(3) ? random_.Boundary() : random_.Below(1 << 22);
      call.data.AllocSize.attr = static_cast<uint32_t>(random_.Next());
      Flip(&call, sizeof call);
      rig_.Rm(NV_ESC_RM_VID_HEAP_CONTROL, &call,
              random_.OneIn(2) ? sizeof(NVOS32_PARAMETERS) : sizeof call);
      const uint32_t memory = call.data.AllocSize.hMemory;
      if (call.status == 0 && memory != 0 && random_.OneIn(2)) rig_.Free(memory);
      break;
    }
    case 2: {
      nv_ioctl_nvos33_parameters_with_fd call{};
      const int file = random_.OneIn(4) ? SomeFile() : open("/dev/nvidia0", O_RDWR | O_CLOEXEC);
      if (file == rig_.control_fd || file == rig_.uvm_fd) break;
      call.params.hClient = rig_.client;
      call.params.hDevice = rig_.device;
      call.params.hMemory = SomeHandle();
      call.params.length = random_.Below(1 << 21);
      call.fd = file;
      Flip(&call.params, sizeof call.params);
      rig_.Rm(NV_ESC_RM_MAP_MEMORY, &call, sizeof call);
      if (file > rig_.uvm_fd && file > rig_.gpu_fd && file > rig_.control_fd) {
        if (random_.OneIn(2)) {
          void* at = mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
          if (at != MAP_FAILED) munmap(at, 1 << 16);
        }
        bool kept = false;
        for (int other : rig_.memory_files) kept |= other == file;
        if (!kept) close(file);
      }
      break;
    }
    case 3: {
      nv_ioctl_nvos02_parameters_with_fd call{};
      call.params.hRoot = rig_.client;
      call.params.hObjectParent = rig_.device;
      call.params.hClass = NV01_MEMORY_SYSTEM_OS_DESCRIPTOR;
      call.params.pMemory = SomePointer();
      call.params.limit = random_.OneIn(3) ? random_.Boundary() : random_.Below(1 << 20);
      Flip(&call, sizeof call);
      rig_.Rm(NV_ESC_RM_ALLOC_MEMORY, &call, sizeof call);
      if (call.params.status == 0 && random_.OneIn(2)) rig_.Free(call.params.hObjectNew);
      break;
    }
    case 4: {
      nv_ioctl_xfer_t call{};
      Noise(256);
      call.cmd = random_.Of(kEscapes);
      call.size = random_.OneIn(3) ? static_cast<uint32_t>(random_.Boundary()) : random_.Below(256);
      call.ptr = SomePointer();
      rig_.Rm(NV_ESC_IOCTL_XFER_CMD, &call, sizeof call);
      break;
    }
    default: {
      NVOS54_PARAMETERS call{};
      const KnownControl control = random_.Of(kControls);
      Noise(control.size);
      call.hClient = rig_.client;
      call.hObject = random_.OneIn(2) ? rig_.subdevice : SomeHandle();
      call.cmd = control.command;
      call.params = reinterpret_cast<uint64_t>(block_.data());
      call.paramsSize = control.size;
      Flip(&call, sizeof call);
      rig_.Rm(NV_ESC_RM_CONTROL, &call, sizeof call);
      break;
    }
  }
}

void Attacker::RandomControl() {
  const KnownControl control = random_.Of(kControls);
  Noise(control.size);
  uint32_t object;
  switch (control.command >> 16) {
    case 0x2080:
    case 0x2081:
      object = rig_.subdevice;
      break;
    case 0x80:
      object = rig_.device;
      break;
    case 0:
      object = rig_.client;
      break;
    case 0x41:
      object = rig_.ring_memory;
      break;
    case 0xa06c:
      object = rig_.group;
      break;
    default:
      object = rig_.channels[random_.Below(kChannels)];
      break;
  }
  if (random_.OneIn(8)) object = SomeHandle();
  // Lists behind pointers: somewhere in the block there may be an address.
  if (random_.OneIn(3) && control.size >= 16) {
    const uint64_t pointer = SomePointer();
    memcpy(block_.data() + random_.Below(control.size / 8) * 8, &pointer, 8);
  }
  rig_.Control(object, control.command, block_.data(), control.size);
}

void Attacker::RandomAlloc() {
  Noise(512);
  const uint32_t class_id =
      random_.OneIn(16) ? static_cast<uint32_t>(random_.Next()) : random_.Of(kClasses);
  // Sizes that ask for a lot of host memory are left to the bombs.
  if (class_id == NV01_MEMORY_SYSTEM || class_id == NV01_MEMORY_LOCAL_USER) {
    const uint64_t size = random_.OneIn(4) ? random_.Boundary() : random_.Below(1 << 22);
    memcpy(block_.data() + offsetof(NV_MEMORY_ALLOCATION_PARAMS, size), &size, 8);
  }
  if (class_id == AMPERE_CHANNEL_GPFIFO_A || class_id == HOPPER_CHANNEL_GPFIFO_A) {
    auto* params = reinterpret_cast<NV_CHANNEL_ALLOC_PARAMS*>(block_.data());
    if (!random_.OneIn(4)) params->hVASpace = rig_.va_space;
    if (!random_.OneIn(4))
      params->hUserdMemory[0] = random_.OneIn(2) ? rig_.tracee_memory : rig_.vidmem;
    if (!random_.OneIn(4)) params->userdOffset[0] = random_.Below(1 << 20) & ~3u;
    if (!random_.OneIn(4)) params->gpFifoEntries = 1 + random_.Below(64);
  }
  uint32_t parent = random_.OneIn(3) ? SomeHandle() : rig_.device;
  const uint32_t handle =
      rig_.Alloc(parent, random_.OneIn(2) ? 0 : SomeHandle(), class_id,
                 random_.OneIn(16) ? reinterpret_cast<void*>(SomePointer()) : block_.data());
  if (handle == 0) return;
  shared->handles[random_.Below(256)] = handle;
  if (rig_.objects.size() < 512) {
    rig_.objects.push_back(handle);
  } else {
    // Not the first, which the rig needs.
    uint32_t& victim = rig_.objects[16 + random_.Below(rig_.objects.size() - 16)];
    rig_.Free(victim);
    victim = handle;
  }
}

void Attacker::Duplicate() {
  NVOS55_PARAMETERS call{};
  call.hClient = rig_.client;
  call.hParent = random_.OneIn(3) ? SomeHandle() : rig_.device;
  call.hClientSrc = random_.OneIn(2) ? rig_.client : SomeHandle();
  call.hObjectSrc = SomeHandle();
  rig_.Rm(NV_ESC_RM_DUP_OBJECT, &call, sizeof call);
  if (call.status == 0 && rig_.objects.size() < 512) rig_.objects.push_back(call.hObject);
  NVOS57_PARAMETERS share{};
  share.hClient = rig_.client;
  share.hObject = SomeHandle();
  rig_.Rm(NV_ESC_RM_SHARE, &share, sizeof share);
}

void Attacker::Exports() {
  const int file = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  if (random_.OneIn(2)) {
    NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS params{};
    params.object.type = 1;
    params.object.data.rmObject = {rig_.device, rig_.device, SomeHandle()};
    params.fd = random_.OneIn(8) ? SomeFile() : file;
    if (params.fd == rig_.control_fd || params.fd == rig_.gpu_fd || params.fd == rig_.uvm_fd) {
      params.fd = file;
    }
    rig_.Control(rig_.client, NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, &params, sizeof params);
  } else {
    NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS params{};
    params.fd = file;
    params.hDevice = rig_.device;
    params.maxObjects = static_cast<uint16_t>(random_.Boundary());
    for (uint32_t& object : params.objects) object = SomeHandle();
    params.numObjects = random_.OneIn(2) ? 1 : static_cast<uint16_t>(random_.Below(520));
    params.index = static_cast<uint16_t>(random_.OneIn(2) ? 0 : random_.Boundary());
    rig_.Control(rig_.client, NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, &params, sizeof params);
  }
  if (random_.OneIn(2)) {
    NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS params{};
    params.fd = file;
    params.object.data.rmObject = {rig_.device, rig_.device, 0};
    if (rig_.Control(rig_.client, NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, &params,
                     sizeof params) == 0) {
      rig_.Free(params.object.data.rmObject.hObject);
    }
  } else {
    NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS params{};
    params.fd = file;
    params.hParent = rig_.device;
    params.numObjects = static_cast<uint16_t>(random_.Below(4));
    params.index = static_cast<uint16_t>(random_.OneIn(2) ? 0 : random_.Boundary());
    rig_.Control(rig_.client, NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, &params,
                 sizeof params);
  }
  close(file);
}

void Attacker::Events() {
  const int file = open("/dev/nvidia0", O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  nv_ioctl_alloc_os_event_t os_event{};
  os_event.hClient = rig_.client;
  os_event.hDevice = rig_.device;
  os_event.fd = file;
  rig_.Rm(NV_ESC_ALLOC_OS_EVENT, &os_event, sizeof os_event);
  NV0005_ALLOC_PARAMETERS params{};
  params.hParentClient = rig_.client;
  params.hClass = NV01_EVENT_OS_EVENT;
  params.notifyIndex = NV01_EVENT_NONSTALL_INTR |
                       (random_.OneIn(2) ? NV2080_NOTIFIERS_GRAPHICS : NV2080_NOTIFIERS_CE0);
  params.data = static_cast<uint64_t>(file);
  const uint32_t event = rig_.Alloc(rig_.subdevice, 0, NV01_EVENT_OS_EVENT, &params);
  // A rank may fill the pipe behind the driver's back.
  if (random_.OneIn(8)) {
    const std::string name = "/proc/self/fd/" + std::to_string(file);
    const int back = open(name.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (back >= 0) {
      if (random_.OneIn(2)) fcntl(back, F_SETPIPE_SZ, 1 << 20);
      while (write(back, block_.data(), 4096) > 0) {
      }
      close(back);
    }
  }
  // Never read; closed before its event, or after, or left.
  if (random_.OneIn(2)) {
    close(file);
    if (event != 0 && !random_.OneIn(4)) rig_.Free(event);
  } else {
    if (event != 0) rig_.Free(event);
    close(file);
  }
}

void Attacker::RandomUvm() {
  const uint32_t command = random_.OneIn(8) ? random_.Below(2048) : 1 + random_.Below(0x4c);
  Noise(9300);
  if (random_.OneIn(2)) memcpy(block_.data() + random_.Below(8) * 8, &rig_.uuid, 16);
  ioctl(random_.OneIn(8) ? SomeFile() : rig_.uvm_fd, command,
        random_.OneIn(8) ? reinterpret_cast<void*>(SomePointer()) : block_.data());
}

void Attacker::MutatedUvm() {
  const uint64_t base = kExternalVa + uint64_t{random_.Below(1024)} * 4096;
  const uint64_t length = (1 + uint64_t{random_.Below(64)}) * 4096;
  switch (random_.Below(5)) {
    case 0: {
      UVM_CREATE_EXTERNAL_RANGE_PARAMS params{};
      params.base = base;
      params.length = length;
      Flip(&params, sizeof params);
      ioctl(rig_.uvm_fd, UVM_CREATE_EXTERNAL_RANGE, &params);
      break;
    }
    case 1: {
      const auto map = [&](auto& params) {
        params.base = base;
        params.length = length;
        params.gpuAttributesCount = 1;
        params.perGpuAttributes[0].gpuUuid = rig_.uuid;
        params.rmCtrlFd = rig_.control_fd;
        params.hClient = rig_.client;
        params.hMemory = random_.OneIn(2) ? rig_.vidmem : SomeHandle();
        Flip(&params, 24);
        if (random_.OneIn(4)) params.gpuAttributesCount = random_.Boundary();
        ioctl(rig_.uvm_fd, UVM_MAP_EXTERNAL_ALLOCATION, &params);
      };
      if (random_.OneIn(2)) {
        UVM_MAP_EXTERNAL_ALLOCATION_PARAMS params{};
        map(params);
      } else {
        UVM_MAP_EXTERNAL_ALLOCATION_PARAMS_V550 params{};
        map(params);
      }
      break;
    }
    case 2: {
      UVM_UNMAP_EXTERNAL_PARAMS params{};
      params.base = base;
      params.length = length;
      params.gpuUuid = rig_.uuid;
      Flip(&params, sizeof params);
      ioctl(rig_.uvm_fd, UVM_UNMAP_EXTERNAL, &params);
      break;
    }
    case 3: {
      UVM_FREE_PARAMS params{};
      params.base = base;
      params.length = length;
      Flip(&params, sizeof params);
      ioctl(rig_.uvm_fd, UVM_FREE, &params);
      break;
    }
    default: {
      UVM_REGISTER_GPU_VASPACE_PARAMS params{};
      params.gpuUuid = rig_.uuid;
      params.hClient = rig_.client;
      params.hVaSpace = random_.OneIn(2) ? rig_.va_space : SomeHandle();
      ioctl(rig_.uvm_fd, random_.OneIn(3) ? UVM_UNREGISTER_GPU_VASPACE : UVM_REGISTER_GPU_VASPACE,
            &params);
      break;
    }
  }
}

void Attacker::Mappings() {
  const int file = SomeFile();
  uint64_t address = 0, length = random_.OneIn(4) ? random_.Boundary() : random_.Below(1 << 21);
  uint64_t offset =
      random_.OneIn(3) ? random_.Boundary() & ~uint64_t{4095} : uint64_t{random_.Below(64)} * 4096;
  int flags = random_.OneIn(8) ? MAP_PRIVATE : MAP_SHARED;
  if (file == rig_.uvm_fd && random_.OneIn(2)) {
    // Managed memory: the offset is the address, which must be free.
    length = (1 + uint64_t{random_.Below(16)}) * 4096;
    void* hole = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (hole == MAP_FAILED) return;
    address = offset = reinterpret_cast<uint64_t>(hole);
    flags |= MAP_FIXED;
    if (random_.OneIn(8)) offset += 4096;
    auto* mapped = static_cast<volatile uint8_t*>(
        mmap(hole, length, PROT_READ | PROT_WRITE, flags, file, static_cast<off_t>(offset)));
    if (mapped != MAP_FAILED && offset == address) mapped[0] = 1;
    munmap(hole, length);
    return;
  }
  void* at = mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, file, static_cast<off_t>(offset));
  if (at != MAP_FAILED) munmap(at, length);
}

void Attacker::Memfds() {
  if (rig_.memory_files.empty()) return;
  // All but the file of the UVM, whose holes cost host memory when allocated.
  const int file = rig_.memory_files[random_.Below(rig_.memory_files.size())];
  switch (random_.Below(8)) {
    case 0: {
      const int result = ftruncate(file, static_cast<off_t>(random_.Boundary() >> 1));
      (void)result;
      break;
    }
    case 1:
      fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, random_.Below(1 << 20),
                1 + random_.Below(1 << 20));
      break;
    case 2:
      fcntl(file, F_ADD_SEALS, random_.Below(64));
      break;
    case 3:
      fcntl(file, F_SETFL, O_APPEND | O_NONBLOCK);
      break;
    case 4: {
      // The bytes that the GPU is reading.
      const ssize_t result =
          pwrite(file, block_.data(), random_.Below(4096), random_.Below(1 << 20));
      (void)result;
      break;
    }
    case 5:
      lseek(file, random_.Below(1 << 20), SEEK_SET);
      break;
    case 6:
      // The memory that was given to the GPU goes away, and comes back.
      if (random_.OneIn(4)) {
        munmap(rig_.own, kOwnBytes);
        void* at = mmap(rig_.own, kOwnBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        (void)at;
      } else {
        mprotect(rig_.own, kOwnBytes / 2, random_.OneIn(2) ? PROT_READ : PROT_READ | PROT_WRITE);
      }
      break;
    default:
      madvise(rig_.ring + kPushAt, 1 << 20, MADV_REMOVE);
      break;
  }
}

void Attacker::Push() {
  const int channel = static_cast<int>(random_.Below(kChannels));
  // A dead channel has something in its error notifier, which is all channels'.
  if (rig_.channels[channel] == 0 || random_.OneIn(3)) {
    memset(rig_.ring + kGpfifoAt + channel * 0x1000, 0, 0x1000);
    rig_.MakeChannel(channel);
  }
  if (random_.OneIn(8)) WriteQmds(rig_);
  const uint64_t at = kPushAt + uint64_t{random_.Below(512)} * 0x1000;
  Pushbuffer push(random_, rig_.ring + at, 0x2000);
  push.Fill();
  if (random_.OneIn(32)) {
    auto* userd = reinterpret_cast<volatile uint32_t*>(rig_.ring + kUserdAt + channel * 0x200);
    userd[kUserdGpPut / 4] = static_cast<uint32_t>(random_.Boundary());
  }
  const uint32_t words =
      random_.OneIn(32) ? static_cast<uint32_t>(kGpEntryLengthMask) : push.used();
  rig_.Submit(channel, at, words);
}

void Attacker::Channels() {
  rig_.MakeChannel(static_cast<int>(random_.Below(kChannels)));
  if (random_.OneIn(2)) {
    NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS schedule{};
    rig_.Control(rig_.group, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, &schedule, sizeof schedule);
  }
}

void Attacker::Paths() {
  static constexpr const char* kPaths[] = {"/proc/driver/nvidia/version",
                                           "/proc/driver/nvidia/params",
                                           "/dev//nvidia0",
                                           "/dev/../dev/nvidiactl",
                                           "/proc/driver/nvidia",
                                           "/sys/module/nvidia/version",
                                           "nvidia",
                                           "/dev/nvidia99999",
                                           "/proc/devices"};
  const char* path = random_.Of(kPaths);
  struct stat status;
  char text[64];
  switch (random_.Below(6)) {
    case 0:
      stat(path, &status);
      break;
    case 1:
      access(path, static_cast<int>(random_.Below(8)));
      break;
    case 2: {
      const ssize_t result = readlink(path, text, random_.Below(sizeof text));
      (void)result;
      break;
    }
    case 3:
      syscall(SYS_openat, random_.Below(16), SomePointer(), 0, 0);
      break;
    case 4: {
      const std::string longest(4000 + random_.Below(200), '/');
      syscall(SYS_stat, (longest + "nvidia").c_str(), SomePointer());
      break;
    }
    default: {
      const int file = open(path, random_.OneIn(2) ? O_RDONLY : O_RDWR);
      if (file < 0) break;
      // What others read must not change.
      const std::string name = "/proc/self/fd/" + std::to_string(file);
      if (strncmp(path, "/proc", 5) == 0) {
        const int again = open(name.c_str(), O_RDWR | O_CLOEXEC);
        if (again >= 0) {
          if (pwrite(again, "hostile", 7, 0) == 7 || ftruncate(again, 0) == 0) {
            ++shared->corrupted;
            fprintf(stderr, "FAIL hostile_tracee: %s can be written\n", path);
          }
          close(again);
        }
      }
      close(file);
      break;
    }
  }
}

void Attacker::Pass() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  const int file =
      open(random_.OneIn(2) ? "/dev/nvidiactl" : "/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &file, sizeof file);
  sendmsg(ends[0], &message, MSG_DONTWAIT);
  if (file >= 0) close(file);  // now it is only in flight
  if (random_.OneIn(2)) {
    memset(control, 0, sizeof control);
    message.msg_controllen = sizeof control;
    if (recvmsg(ends[1], &message, MSG_DONTWAIT) == 1 && message.msg_controllen > 0) {
      int received;
      memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
      ioctl(received, _IOC(_IOC_READ | _IOC_WRITE, 'F', NV_ESC_SYS_PARAMS, 8), block_.data());
      close(received);
    }
  }
  close(ends[0]);
  close(ends[1]);
}

void Attacker::Fork() {
  const uint64_t seed = random_.Next();
  const pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    // Only system calls from here on: other threads may have held any lock.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Random random(seed);
    uint8_t block[512] = {};
    for (int i = 0; i < 20; ++i) {
      // The parent's files, but another process.
      ioctl(rig_.control_fd,
            _IOC(_IOC_READ | _IOC_WRITE, 'F', kEscapes[random.Below(25)], random.Below(200)),
            block);
      ioctl(rig_.uvm_fd, random.Below(80), block);
      if (i == 10 && random.OneIn(4)) {
        char name[] = "/bin/true";
        char* const arguments[] = {name, nullptr};
        execv(name, arguments);
      }
      if (i == 15 && random.OneIn(2)) raise(SIGKILL);
    }
    _exit(0);
  }
  if (random_.OneIn(2)) {
    timespec pause{0, static_cast<long>(random_.Below(2000000))};
    nanosleep(&pause, nullptr);
    kill(child, SIGKILL);
  }
  waitpid(child, nullptr, 0);
}

// Much of one thing. Small without --greedy.
void Attacker::Bomb() {
  const uint32_t much = greedy_ ? 20000 : 200;
  std::vector<uint32_t> made;
  std::vector<int> files;
  const uint32_t kind = random_.Below(8);
  switch (kind) {
    case 0:
      for (uint32_t i = 0; i < much; ++i) {
        NV_CHANNEL_ALLOC_PARAMS params{};
        params.gpFifoOffset = kRingVa + kGpfifoAt;
        params.gpFifoEntries = 8;
        params.hVASpace = rig_.va_space;
        params.hUserdMemory[0] = rig_.vidmem;
        params.userdOffset[0] = uint64_t{i % 4096} * 0x200;
        const uint32_t handle =
            rig_.Alloc(rig_.group, 0,
                       rig_.hopper ? HOPPER_CHANNEL_GPFIFO_A : AMPERE_CHANNEL_GPFIFO_A, &params);
        if (handle == 0) break;
        made.push_back(handle);
      }
      *(rig_.doorbell + kDoorbell / 4) = 1;
      break;
    case 1:
      for (uint32_t i = 0; i < much; ++i) {
        const uint32_t handle =
            rig_.AllocMemory(NV01_MEMORY_SYSTEM, 4096 + random_.Boundary() % (1 << 30));
        if (handle == 0) break;
        made.push_back(handle);
        if (i % 4 == 0) rig_.MapToGpu(handle, kExternalVa + uint64_t{i} * 4096, 4096);
      }
      break;
    case 2:
      for (uint32_t i = 0; i < much; ++i) {
        const int file =
            open(i % 2 == 0 ? "/dev/nvidia-uvm" : "/dev/nvidiactl", O_RDWR | O_CLOEXEC);
        if (file < 0) break;
        files.push_back(file);
        if (!greedy_ || i % 2 == 0) {  // opened, closed, opened ...
          close(file);
          files.pop_back();
        }
      }
      break;
    case 3:
      for (uint32_t i = 0; i < much; ++i) {
        UVM_CREATE_EXTERNAL_RANGE_PARAMS params{};
        params.base = kExternalVa * 2 + uint64_t{i} * 8192;
        params.length = 4096;
        if (ioctl(rig_.uvm_fd, UVM_CREATE_EXTERNAL_RANGE, &params) != 0) break;
      }
      break;
    case 4: {
      // A deep tree.
      uint32_t parent = rig_.device;
      for (uint32_t i = 0; i < much; ++i) {
        NV2080_ALLOC_PARAMETERS params{};
        const uint32_t handle = rig_.Alloc(parent, 0, NV20_SUBDEVICE_0, &params);
        if (handle == 0) break;
        if (i == 0) made.push_back(handle);
        parent = handle;
      }
      break;
    }
    case 5:
      for (uint32_t i = 0; i < (greedy_ ? 2000u : 20u); ++i) {
        NVOS64_PARAMETERS root{};
        root.hClass = NV01_ROOT_CLIENT;
        if (rig_.Rm(NV_ESC_RM_ALLOC, &root, sizeof root) != 0 || root.status != 0) break;
        NV0080_ALLOC_PARAMETERS device{};
        const uint32_t own = rig_.client;
        rig_.client = root.hObjectNew;
        const uint32_t handle = rig_.Alloc(root.hObjectNew, 0, NV01_DEVICE_0, &device);
        rig_.Alloc(handle, 0, HOPPER_USERMODE_A, nullptr);
        rig_.client = own;
        NVOS00_PARAMETERS gone{};
        gone.hRoot = gone.hObjectOld = root.hObjectNew;
        if (!greedy_ || random_.OneIn(2)) rig_.Rm(NV_ESC_RM_FREE, &gone, sizeof gone);
      }
      break;
    case 6:
      for (uint32_t i = 0; i < much / 10; ++i) {
        const int file = open("/dev/nvidia0", O_RDWR | O_CLOEXEC);
        if (file < 0) break;
        nv_ioctl_alloc_os_event_t os_event{};
        os_event.fd = file;
        rig_.Rm(NV_ESC_ALLOC_OS_EVENT, &os_event, sizeof os_event);
        files.push_back(file);
        for (int j = 0; j < 20; ++j) {
          NV0005_ALLOC_PARAMETERS params{};
          params.hClass = NV01_EVENT_OS_EVENT;
          params.notifyIndex = NV01_EVENT_NONSTALL_INTR | NV2080_NOTIFIERS_GRAPHICS;
          params.data = static_cast<uint64_t>(file);
          const uint32_t handle = rig_.Alloc(rig_.subdevice, 0, NV01_EVENT_OS_EVENT, &params);
          if (handle != 0) made.push_back(handle);
        }
      }
      break;
    default: {
      // Long work: interrupts and copies without end in one segment, on all channels.
      for (int channel = 0; channel < kChannels; ++channel) {
        rig_.MakeChannel(channel);
        Pushbuffer push(random_, rig_.ring + kPushAt, 1 << 21);
        push.Method(4, host::kSetObject, 0xc8b5);
        push.Address(4, copy::kOffsetInUpper, kVidmemVa);
        push.Address(4, copy::kOffsetOutUpper, kVidmemVa + kVidmemBytes / 2);
        push.Method(4, copy::kLineLengthIn, kVidmemBytes / 2);
        const uint32_t what = random_.Below(3);
        if (what == 2) {
          push.Method(4, copy::kRemapComponents, 0x03333210);
          push.Method(4, copy::kLineLengthIn, 100000);
          push.Method(4, copy::kLineCount, 600);
        }
        for (int i = 0; i < (greedy_ ? 100000 : 1000); ++i) {
          if (what == 0) push.Method(0, host::kNonStallInterrupt, 0);
          if (what == 1) push.Method(4, copy::kLaunchDma, 0x182);
          if (what == 2) push.Method(4, copy::kLaunchDma, 0x782);
        }
        rig_.Submit(channel, kPushAt, push.used());
      }
      break;
    }
  }
  if (random_.OneIn(2)) {
    for (uint32_t handle : made) rig_.Free(handle);
  } else {
    for (auto it = made.rbegin(); it != made.rend(); ++it) rig_.Free(*it);
  }
  for (int file : files) close(file);
}

void Attacker::One() {
  static constexpr uint8_t kWeights[kKinds] = {4, 8, 16, 16, 8, 4, 4, 4, 4, 8,
                                               8, 6, 6,  24, 2, 6, 2, 1, 0};
  uint32_t sum = 0;
  for (uint8_t weight : kWeights) sum += weight;
  uint32_t pick = random_.Below(sum);
  int kind = 0;
  while (pick >= kWeights[kind]) pick -= kWeights[kind++];
  if (random_.OneIn(greedy_ ? 500 : 2000)) kind = kBomb;
  const uint64_t start = NowNs();
  switch (kind) {
    case kOpenClose:
      OpenClose();
      break;
    case kEscape:
      RandomEscape();
      break;
    case kMutated:
      MutatedEscape();
      break;
    case kControl:
      RandomControl();
      break;
    case kAlloc:
      RandomAlloc();
      break;
    case kFree:
      if (rig_.objects.size() > 16) {
        // Also twice.
        const uint32_t handle = rig_.objects[16 + random_.Below(rig_.objects.size() - 16)];
        rig_.Free(handle);
        if (random_.OneIn(4)) rig_.Free(handle);
      }
      if (random_.OneIn(64)) rig_.Free(SomeHandle());
      break;
    case kDup:
      Duplicate();
      break;
    case kExport:
      Exports();
      break;
    case kEvents:
      Events();
      break;
    case kUvm:
      RandomUvm();
      break;
    case kUvmMutated:
      MutatedUvm();
      break;
    case kMap:
      Mappings();
      break;
    case kMemfd:
      Memfds();
      break;
    case kPushbuffer:
      Push();
      break;
    case kChannel:
      Channels();
      break;
    case kPaths:
      Paths();
      break;
    case kPass:
      Pass();
      break;
    case kFork:
      Fork();
      break;
    default:
      Bomb();
      break;
  }
  const uint64_t took = NowNs() - start;
  ++shared->calls[kind];
  ++shared->total;
  if (kind != kFork && kind != kBomb) {
    uint64_t longest = shared->longest_ns;
    while (took > longest && !shared->longest_ns.compare_exchange_weak(longest, took)) {
    }
  }
}

// --- Processes -------------------------------------------------------------------------

// One process: rigs and threads until the work is done or it dies.
void RunProcess(uint64_t seed, uint64_t count, bool greedy, bool hopper, int threads) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A crash of this process is none of anybody's business.
  for (int signal_number : {SIGSEGV, SIGBUS, SIGABRT}) {
    signal(signal_number, [](int) { _exit(1); });
  }
  signal(SIGPIPE, SIG_IGN);
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([=] {
      Random random(seed * 64 + static_cast<uint64_t>(t));
      auto rig = std::make_unique<Rig>(random.Next(), hopper);
      if (!rig->Build()) return;
      Attacker attacker(*rig, random.Next(), greedy);
      // A second attacker on the same rig, without any lock between them: it
      // changes pushbuffers and USERD while they are being executed.
      std::atomic<bool> done{false};
      std::thread other([&rig, &done, seed2 = random.Next()] {
        Random r(seed2);
        while (!done && !shared->stop) {
          uint8_t* at =
              rig->ring + (r.OneIn(4) ? kUserdAt + r.Below(0x800) : kPushAt + r.Below(1 << 21));
          *reinterpret_cast<volatile uint8_t*>(at) = static_cast<uint8_t>(r.Next());
          if (r.OneIn(64)) *(rig->doorbell + kDoorbell / 4) = 1;
          if (r.OneIn(16)) {
            timespec pause{0, 200000};
            nanosleep(&pause, nullptr);
          }
        }
      });
      while (!shared->stop && shared->total < count) attacker.One();
      done = true;
      other.join();
    });
  }
  for (std::thread& thread : pool) thread.join();
  _exit(0);
}

struct Beside {
  uint64_t runs = 0, failures = 0, longest_ms = 0;
};

pid_t Spawn(const std::string& program, int output) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execl(program.c_str(), program.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  return child;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seed = 1, count = 20000, seconds = 60;
  bool greedy = false;
  std::vector<std::string> programs;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "0";
    if (option == "--seed")
      seed = strtoull(value, nullptr, 0), ++i;
    else if (option == "--count")
      count = strtoull(value, nullptr, 0), ++i;
    else if (option == "--seconds")
      seconds = strtoull(value, nullptr, 0), ++i;
    else if (option == "--beside")
      programs.push_back(value), ++i;
    else if (option == "--greedy")
      greedy = true;
    else {
      fprintf(stderr, "hostile_tracee: what is %s?\n", argv[i]);
      return 2;
    }
  }
  shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  constexpr int kProcesses = 3, kThreads = 3;
  const uint64_t start = NowNs(), end = start + seconds * 1000000000;
  Random random(seed);
  pid_t processes[kProcesses] = {};
  pid_t beside = 0;
  uint64_t beside_start = 0;
  size_t next_program = 0;
  Beside report;
  const int output = memfd_create("beside", MFD_CLOEXEC);
  while (shared->total < count && NowNs() < end) {
    for (pid_t& process : processes) {
      if (process != 0 && waitpid(process, nullptr, WNOHANG) == process) process = 0;
      // Killed in the middle of whatever it does.
      if (process != 0 && random.OneIn(300)) {
        kill(process, SIGKILL);
        waitpid(process, nullptr, 0);
        process = 0;
        ++shared->kills;
      }
      if (process == 0) {
        const uint64_t generation = ++shared->generations;
        const uint64_t child_seed = random.Next();
        process = fork();
        if (process == 0) {
          RunProcess(child_seed, count, greedy, generation % 4 != 0, kThreads);
        }
      }
    }
    if (!programs.empty()) {
      int status = 0;
      if (beside != 0 && waitpid(beside, &status, WNOHANG) == beside) {
        const uint64_t took = (NowNs() - beside_start) / 1000000;
        if (took > report.longest_ms) report.longest_ms = took;
        ++report.runs;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
          ++report.failures;
          fprintf(stderr, "FAIL hostile_tracee: %s was disturbed (status 0x%x)\n",
                  programs[(next_program - 1) % programs.size()].c_str(), status);
          char text[4096];
          const ssize_t length = pread(output, text, sizeof text, 0);
          if (length > 0) fwrite(text, 1, static_cast<size_t>(length), stderr);
        }
        beside = 0;
      }
      if (beside == 0) {
        const int result = ftruncate(output, 0);
        (void)result;
        lseek(output, 0, SEEK_SET);
        beside_start = NowNs();
        beside = Spawn(programs[next_program++ % programs.size()], output);
      }
    }
    timespec pause{0, 10000000};
    nanosleep(&pause, nullptr);
  }
  shared->stop = true;
  for (pid_t process : processes) {
    if (process > 0) kill(process, SIGKILL), waitpid(process, nullptr, 0);
  }
  if (beside != 0) {
    int status = 0;
    waitpid(beside, &status, 0);
    ++report.runs;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++report.failures;
  }
  // Is the driver still there?
  Rig rig(seed, true);
  const bool alive = rig.Build();
  for (int kind = 0; kind < kKinds; ++kind) {
    printf("%12llu %s\n", static_cast<unsigned long long>(shared->calls[kind].load()),
           kKindNames[kind]);
  }
  printf(
      "seed %llu: %llu steps in %.1f s, %llu processes, %llu killed, %llu rigs, longest step "
      "%.1f ms\n",
      static_cast<unsigned long long>(seed), static_cast<unsigned long long>(shared->total.load()),
      static_cast<double>(NowNs() - start) / 1e9,
      static_cast<unsigned long long>(shared->generations.load()),
      static_cast<unsigned long long>(shared->kills.load()),
      static_cast<unsigned long long>(shared->rigs.load()),
      static_cast<double>(shared->longest_ns.load()) / 1e6);
  if (!programs.empty()) {
    printf("beside: %llu runs, %llu failed, longest %llu ms\n",
           static_cast<unsigned long long>(report.runs),
           static_cast<unsigned long long>(report.failures),
           static_cast<unsigned long long>(report.longest_ms));
  }
  const bool passed = alive && report.failures == 0 && shared->corrupted == 0 && shared->rigs > 1;
  printf("%s hostile_tracee\n", passed ? "PASS" : "FAIL");
  fflush(stdout);
  return passed ? 0 : 1;
}
