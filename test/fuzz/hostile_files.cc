// Descriptors: exports, events, mappings, memory files, paths, and passing them on.
#include "test/fuzz/hostile_attacker.h"

namespace phantora::hostile {

using namespace abi;  // NOLINT: NVIDIA's names

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

}  // namespace phantora::hostile
