// What the supervisor knows about an emulated device: an open file with hooks.
#ifndef PHANTORA_TRAP_FILES_DEVICE_FILE_H_
#define PHANTORA_TRAP_FILES_DEVICE_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trap/linux/remote_memory.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

class DeviceFile;

// One trapped call of one tracee. Valid only while the call is served.
class CallContext {
 public:
  virtual ~CallContext() = default;

  // The process (thread group) that made the call.
  virtual pid_t process() const = 0;
  virtual const RemoteMemory& memory() const = 0;
  // The descriptor it was made on.
  virtual int descriptor() const = 0;

  // The emulated device open at `descriptor` of the caller, or nullptr.
  virtual std::shared_ptr<DeviceFile> DeviceAt(int descriptor) = 0;
  // Puts `file` in place of the caller's `descriptor`.
  virtual absl::Status Replace(int descriptor, int file) = 0;
  // Puts a new emulated file in place of the caller's `descriptor`.
  virtual absl::Status ReplaceByDevice(int descriptor, std::shared_ptr<DeviceFile> device) = 0;
};

struct MmapRequest {
  uint64_t address;
  uint64_t length;
  uint64_t protection;
  uint64_t flags;
  uint64_t offset;
};

class DeviceFile {
 public:
  // Runs when the last descriptor of this open file, in any process, is closed;
  // also when its holders die.
  virtual ~DeviceFile() = default;

  virtual std::string name() const = 0;
  // Returns 0 or a negative errno. Driver-level failures go into the parameter
  // block as an NV_STATUS.
  virtual int Ioctl(CallContext& call, uint32_t command, RemoteAddress argument) = 0;
  // Called before the kernel maps the file. Returns 0 or a negative errno.
  virtual int Mmap(CallContext& call, const MmapRequest& request) { return 0; }

  // The file that stands for the device in tracees.
  struct Handle {
    UniqueFd file;    // what a tracee gets
    UniqueFd keeper;  // what the supervisor keeps: it pins the inode
    // Does `keeper` report an error or hang-up once no copy of `file` is open any
    // more? If not, the device lives as long as the process that opened it.
    bool tells_last_close = true;
  };
  // Called once. Invalid descriptors mean that there are no more to be had. By
  // default, a pipe of which the tracee gets the write end: it hangs up at the
  // very moment when the last descriptor is closed, wherever it went, and never
  // becomes readable (libcuda would take a readable device for an interrupt).
  virtual Handle MakeHandle();
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_FILES_DEVICE_FILE_H_
