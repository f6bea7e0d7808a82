// libphantora_record.so: preloaded into a program, writes down what it and its libraries say to
// the NVIDIA driver. See stream.h for what it writes, README and recording.h for what becomes of
// it.
//
// It must not disturb: it keeps no descriptor, no lock and no memory, changes neither errno nor
// results, and a bad pointer is the driver's affair as before.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

#include "tools/record/block_sizes.h"
#include "tools/record/pointed_lists.h"
#include "tools/record/stream.h"
#include "tools/record/stream_writer.h"
#include "trap/abi/generated/escapes.h"

namespace {

using namespace phantora::record;  // NOLINT: everything here is about the stream
namespace abi = phantora::abi;

#define PHANTORA_EXPORT extern "C" __attribute__((visibility("default")))

constexpr uint32_t kMostFile = 64 << 10;
// The commands of UVM that are not in block_sizes.h.
constexpr uint32_t kUnknownUvmBlock = 64;
constexpr uint32_t kMostUvmCommand = 2048;

// --- Descriptors of devices ------------------------------------------------------

// What each descriptor is: N + kFirstGpu for /dev/nvidia<N>; see kDevices for the others.
constexpr int kMostDescriptors = 65536;
std::atomic<uint8_t> devices[kMostDescriptors];
constexpr uint8_t kFirstGpu = 32;
// In this order, because the first that fits counts.
constexpr const char* kDevices[] = {"",
                                    "/dev/nvidiactl",
                                    "/dev/nvidia-uvm-tools",
                                    "/dev/nvidia-uvm",
                                    "/dev/nvidia-caps",
                                    "/dev/nvidia-modeset",
                                    "/dev/nvidia-nvswitch",
                                    "/dev/nvidia-nvlink"};
constexpr uint8_t kUvm = 3;

bool StartsWith(const char* text, const char* prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

// 0 if `path` is not a device of the driver.
uint8_t DeviceOf(const char* path) {
  if (path == nullptr || !StartsWith(path, "/dev/nvidia")) return 0;
  for (uint8_t i = 1; i < sizeof kDevices / sizeof *kDevices; ++i) {
    if (StartsWith(path, kDevices[i])) return i;
  }
  const char* digits = path + strlen("/dev/nvidia");
  if (*digits < '0' || *digits > '9') return 0;
  const int gpu = atoi(digits);
  return gpu < 256 - kFirstGpu ? static_cast<uint8_t>(kFirstGpu + gpu) : 0;
}

// Writes the path of a device into `path`, of at least 32 bytes.
void DevicePath(uint8_t device, char* path) {
  if (device < kFirstGpu) {
    strcpy(path, device < sizeof kDevices / sizeof *kDevices ? kDevices[device] : "");
    return;
  }
  strcpy(path, "/dev/nvidia");
  AppendNumber(device - kFirstGpu, path + strlen(path));
}

void SetDevice(int fd, uint8_t device) {
  if (fd >= 0 && fd < kMostDescriptors) devices[fd].store(device, std::memory_order_relaxed);
}

uint8_t KnownDevice(int fd) {
  return fd >= 0 && fd < kMostDescriptors ? devices[fd].load(std::memory_order_relaxed) : 0;
}

// Also descriptors that came from elsewhere: another process, or a raw system call.
uint8_t FindDevice(int fd) {
  if (const uint8_t device = KnownDevice(fd); device != 0) return device;
  char link[32] = "/proc/self/fd/", path[64];
  AppendNumber(static_cast<unsigned>(fd), link + strlen(link));
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size <= 0) return 0;
  path[size] = '\0';
  return DeviceOf(path);
}

// --- ioctl --------------------------------------------------------------------------------

struct Block {
  uint64_t address;
  uint32_t size;
};

// What an ioctl points to.
struct Blocks {
  static constexpr int kMost = 8;
  Block blocks[kMost];
  int count = 0;

  // A null pointer or an empty block keeps its number.
  void Add(uint64_t address, uint64_t size) {
    if (count == kMost) return;
    blocks[count++] = {address, static_cast<uint32_t>(size < kMostBlock ? size : kMostBlock)};
  }
};

void AddControl(uint64_t address, uint64_t size, Blocks* blocks) {
  abi::NVOS54_PARAMETERS control;
  if (size < sizeof control || !ReadMemory(address, &control, sizeof control)) return;
  blocks->Add(control.params, control.params == 0 ? 0 : control.paramsSize);
  for (const PointedList& list : kPointedLists) {
    if (list.command != control.cmd) continue;
    uint32_t count;
    uint64_t pointer;
    if (list.pointer_offset + 8u > control.paramsSize ||
        !ReadMemory(control.params + list.count_offset, &count, 4) ||
        !ReadMemory(control.params + list.pointer_offset, &pointer, 8)) {
      return;
    }
    blocks->Add(pointer, pointer == 0 ? 0 : uint64_t{count} * list.element_bytes);
  }
}

void AddAllocation(uint64_t address, uint64_t size, Blocks* blocks) {
  uint32_t class_id, params_size;
  uint64_t params;
  abi::NVOS64_PARAMETERS allocation;
  abi::NVOS21_PARAMETERS shorter;
  if (size == sizeof allocation && ReadMemory(address, &allocation, sizeof allocation)) {
    class_id = allocation.hClass;
    params = allocation.pAllocParms;
    params_size = allocation.paramsSize;
  } else if (size == sizeof shorter && ReadMemory(address, &shorter, sizeof shorter)) {
    class_id = shorter.hClass;
    params = shorter.pAllocParms;
    params_size = shorter.paramsSize;
  } else {
    return;
  }
  // Without a size, the class says what it is.
  if (params_size == 0) params_size = AllocationSize(class_id);
  blocks->Add(params, params == 0 ? 0 : params_size);
}

// Is it an ioctl that the driver may get?
bool MayBeDrivers(unsigned long request) {
  return _IOC_TYPE(request) == 'F' || request < kMostUvmCommand || UvmBlockSize(request) > 0;
}

void RecordBlocks(Writer& writer, RecordKind kind, uint64_t call, const Blocks& blocks) {
  for (int i = 0; i < blocks.count; ++i) {
    const Block& block = blocks.blocks[i];
    if (block.address != 0) {
      writer.AddBlock(kind, static_cast<uint16_t>(i), call, block.address, block.size);
    }
  }
}

int RecordedIoctl(int fd, unsigned long request, uint64_t argument, uint8_t device) {
  Blocks blocks;
  const uint64_t call = NextCall();
  {
    KeepErrno keep;
    uint64_t number = request, size;
    if (device == kUvm || (device == 0 && _IOC_TYPE(request) != 'F')) {
      size = UvmBlockSize(static_cast<uint32_t>(request));
      if (size == 0) size = kUnknownUvmBlock;
      blocks.Add(argument, size);
    } else {
      number = _IOC_NR(request);
      size = _IOC_SIZE(request);
      uint64_t address = argument;
      abi::nv_ioctl_xfer_t wrapped;
      // Larger than the 14 bits of an ioctl number allow.
      if (number == abi::NV_ESC_IOCTL_XFER_CMD && ReadMemory(argument, &wrapped, sizeof wrapped)) {
        number = wrapped.cmd;
        size = wrapped.size;
        address = wrapped.ptr;
      }
      blocks.Add(address, size);
      if (number == abi::NV_ESC_RM_CONTROL) AddControl(address, size, &blocks);
      if (number == abi::NV_ESC_RM_ALLOC) AddAllocation(address, size, &blocks);
    }
    char path[32];
    DevicePath(device, path);
    Writer writer;
    writer.AddText(RecordKind::kIoctl, call, {request, static_cast<uint64_t>(fd), number, size},
                   path);
    RecordBlocks(writer, RecordKind::kBytesIn, call, blocks);
  }
  const int result = static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
  {
    KeepErrno keep;
    const uint64_t error = result < 0 ? static_cast<uint64_t>(errno) : 0;
    Writer writer;
    RecordBlocks(writer, RecordKind::kBytesOut, call, blocks);
    writer.Add(RecordKind::kIoctlEnd, call, {static_cast<uint64_t>(result), error, 0, 0}, nullptr,
               0);
  }
  return result;
}

// --- Files ----------------------------------------------------------------------------------

// Files from which the driver's libraries learn about the machine.
bool IsDriverFile(const char* path) {
  for (const char* prefix : {"/proc/driver/nvidia", "/sys/module/nvidia", "/sys/bus/pci/devices/",
                             "/sys/devices/pci", "/sys/class/pci_bus/"}) {
    if (StartsWith(path, prefix)) return true;
  }
  return false;
}

void RecordOpen(const char* path, int flags, int fd, int error) {
  if (!Recording() || path == nullptr) return;
  KeepErrno keep;
  if (const uint8_t device = DeviceOf(path); device != 0) {
    if (fd >= 0) SetDevice(fd, device);
    Writer writer;
    writer.AddText(RecordKind::kOpen, NextCall(),
                   {static_cast<uint64_t>(flags), static_cast<uint64_t>(error), 0, 0}, path);
    return;
  }
  if (fd >= 0) SetDevice(fd, 0);
  if (fd < 0 || !IsDriverFile(path) || (flags & (O_DIRECTORY | O_PATH)) != 0) return;
  // Its position is the program's.
  const int copy =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0));
  if (copy < 0) return;
  const uint64_t call = NextCall();
  Writer writer;
  writer.AddText(RecordKind::kFile, call, {}, path);
  uint8_t bytes[1024];
  for (uint64_t offset = 0; offset < kMostFile;) {
    const ssize_t size = syscall(SYS_read, copy, bytes, sizeof bytes);
    if (size <= 0) break;
    writer.Add(RecordKind::kFileBytes, call, {offset, 0, 0, 0}, bytes, static_cast<uint32_t>(size));
    offset += static_cast<uint64_t>(size);
  }
  syscall(SYS_close, copy);
}

// The function that the program would have called. nullptr if there is none.
template <typename Function>
Function Next(std::atomic<Function>& cached, const char* name) {
  Function next = cached.load(std::memory_order_relaxed);
  if (next == nullptr) {
    next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
    cached.store(next, std::memory_order_relaxed);
  }
  return next;
}

template <typename... Arguments>
int CallOpen(const char* name, std::atomic<int (*)(Arguments...)>& cached, const char* path,
             int flags, Arguments... arguments) {
  auto next = Next(cached, name);
  if (next == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  const int fd = next(arguments...);
  RecordOpen(path, flags, fd, fd < 0 ? errno : 0);
  return fd;
}

mode_t ModeOf(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

void* RecordedMmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  const auto result =
      reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, fd, offset));
  const uint8_t device = (flags & MAP_ANONYMOUS) != 0 || !Recording() ? 0 : KnownDevice(fd);
  if (device == 0) return result;
  KeepErrno keep;
  const uint64_t error = result == MAP_FAILED ? static_cast<uint64_t>(errno) : 0;
  char path[32];
  DevicePath(device, path);
  Writer writer;
  writer.AddText(RecordKind::kMmap, NextCall(),
                 {length, static_cast<uint32_t>(protection) | static_cast<uint64_t>(flags) << 32,
                  static_cast<uint64_t>(offset), error},
                 path);
  return result;
}

}  // namespace

PHANTORA_EXPORT int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  const uint64_t argument = va_arg(arguments, uint64_t);
  va_end(arguments);
  if (Recording() && MayBeDrivers(request)) {
    const int before = errno;
    const uint8_t device = FindDevice(fd);
    errno = before;
    // Others' ioctls have type 'F' or small numbers, too. A descriptor that cannot be told is
    // one of the driver's if the request is.
    const bool escape = _IOC_TYPE(request) == 'F' && _IOC_NR(request) >= 0x20 && _IOC_DIR(request);
    if (device != 0 || (escape && abi::EscapeName(_IOC_NR(request)) != nullptr)) {
      return RecordedIoctl(fd, request, argument, device);
    }
  }
  return static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
}

PHANTORA_EXPORT int open(const char* path, int flags, ...) {
  static std::atomic<int (*)(const char*, int, mode_t)> next{nullptr};
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return CallOpen("open", next, path, flags, path, flags, mode);
}

PHANTORA_EXPORT int open64(const char* path, int flags, ...) {
  static std::atomic<int (*)(const char*, int, mode_t)> next{nullptr};
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return CallOpen("open64", next, path, flags, path, flags, mode);
}

PHANTORA_EXPORT int openat(int directory, const char* path, int flags, ...) {
  static std::atomic<int (*)(int, const char*, int, mode_t)> next{nullptr};
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return CallOpen("openat", next, path, flags, directory, path, flags, mode);
}

PHANTORA_EXPORT int openat64(int directory, const char* path, int flags, ...) {
  static std::atomic<int (*)(int, const char*, int, mode_t)> next{nullptr};
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return CallOpen("openat64", next, path, flags, directory, path, flags, mode);
}

// What open becomes where the compiler checks its use (_FORTIFY_SOURCE).
PHANTORA_EXPORT int __open_2(const char* path, int flags) {
  static std::atomic<int (*)(const char*, int)> next{nullptr};
  return CallOpen("__open_2", next, path, flags, path, flags);
}

PHANTORA_EXPORT int __open64_2(const char* path, int flags) {
  static std::atomic<int (*)(const char*, int)> next{nullptr};
  return CallOpen("__open64_2", next, path, flags, path, flags);
}

PHANTORA_EXPORT FILE* fopen(const char* path, const char* mode) {
  static std::atomic<FILE* (*)(const char*, const char*)> next{nullptr};
  auto function = Next(next, "fopen");
  FILE* file = function == nullptr ? nullptr : function(path, mode);
  if (file != nullptr) RecordOpen(path, 0, fileno(file), 0);
  return file;
}

PHANTORA_EXPORT FILE* fopen64(const char* path, const char* mode) {
  static std::atomic<FILE* (*)(const char*, const char*)> next{nullptr};
  auto function = Next(next, "fopen64");
  FILE* file = function == nullptr ? nullptr : function(path, mode);
  if (file != nullptr) RecordOpen(path, 0, fileno(file), 0);
  return file;
}

PHANTORA_EXPORT int close(int fd) {
  static std::atomic<int (*)(int)> next{nullptr};
  // Before it is another's.
  SetDevice(fd, 0);
  auto function = Next(next, "close");
  return function == nullptr ? static_cast<int>(syscall(SYS_close, fd)) : function(fd);
}

PHANTORA_EXPORT int dup(int fd) noexcept {
  const int copy = static_cast<int>(syscall(SYS_dup, fd));
  SetDevice(copy, KnownDevice(fd));
  return copy;
}

PHANTORA_EXPORT int dup2(int fd, int to) noexcept {
  const int copy = static_cast<int>(syscall(SYS_dup2, fd, to));
  SetDevice(copy, KnownDevice(fd));
  return copy;
}

PHANTORA_EXPORT int dup3(int fd, int to, int flags) noexcept {
  const int copy = static_cast<int>(syscall(SYS_dup3, fd, to, flags));
  SetDevice(copy, KnownDevice(fd));
  return copy;
}

namespace {

int RecordedFcntl(const char* name, std::atomic<int (*)(int, int, ...)>& next, int fd, int command,
                  void* argument) {
  auto function = Next(next, name);
  const int result = function == nullptr
                         ? static_cast<int>(syscall(SYS_fcntl, fd, command, argument))
                         : function(fd, command, argument);
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) SetDevice(result, KnownDevice(fd));
  return result;
}

}  // namespace

PHANTORA_EXPORT int fcntl(int fd, int command, ...) {
  static std::atomic<int (*)(int, int, ...)> next{nullptr};
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return RecordedFcntl("fcntl", next, fd, command, argument);
}

PHANTORA_EXPORT int fcntl64(int fd, int command, ...) {
  static std::atomic<int (*)(int, int, ...)> next{nullptr};
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return RecordedFcntl("fcntl64", next, fd, command, argument);
}

PHANTORA_EXPORT void* mmap(void* address, size_t length, int protection, int flags, int fd,
                           off_t offset) noexcept {
  return RecordedMmap(address, length, protection, flags, fd, offset);
}

PHANTORA_EXPORT void* mmap64(void* address, size_t length, int protection, int flags, int fd,
                             off_t offset) noexcept {
  return RecordedMmap(address, length, protection, flags, fd, offset);
}
