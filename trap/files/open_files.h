// Emulated open files and their identity. A tracee's descriptor survives dup,
// fork, exec and SCM_RIGHTS; the file behind it is recognised by its inode.
#ifndef PHANTORA_TRAP_FILES_OPEN_FILES_H_
#define PHANTORA_TRAP_FILES_OPEN_FILES_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "trap/files/device_file.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

class OpenFiles {
 public:
  // `epoll` gets the keepers that tell the last close, with the descriptor as user
  // data.
  explicit OpenFiles(int epoll);

  // Returns the descriptor to install in the tracee, which the caller closes
  // after installing it. Errors: out of descriptors, or `owner` has its share of them.
  absl::StatusOr<UniqueFd> Add(std::shared_ptr<DeviceFile> device, pid_t owner);

  // The emulated file at `descriptor` of `process`; nullptr if it is another.
  std::shared_ptr<DeviceFile> Find(pid_t process, int descriptor);

  // `keeper` reported the last close. Returns the device for destruction by the
  // caller, under its lock; nullptr if `keeper` is none of ours, or `is_ending` says of
  // the process that opened it that it is about to be reported dead: then the file ends
  // with it, and not a moment earlier if that is looked at in between.
  std::shared_ptr<DeviceFile> HungUp(int keeper, const std::function<bool(pid_t)>& is_ending);

  // Forgets files that live as long as the process that opened them.
  std::vector<std::shared_ptr<DeviceFile>> OwnerDied(pid_t owner);

  size_t size() const { return files_.size(); }

 private:
  struct Identity {
    dev_t device;
    ino_t inode;
    bool operator==(const Identity&) const = default;
    template <typename H>
    friend H AbslHashValue(H hash, const Identity& id) {
      return H::combine(std::move(hash), id.device, id.inode);
    }
  };
  struct File {
    std::shared_ptr<DeviceFile> device;
    UniqueFd keeper;
    pid_t owner;   // 0 when the keeper tells the end
    pid_t opener;  // whose share it counts against
  };
  void Uncount(pid_t opener);

  const int epoll_;
  dev_t pipes_ = 0;  // where the kernel has all pipes
  absl::flat_hash_map<Identity, File> files_;
  absl::flat_hash_map<int, Identity> keepers_;
  absl::flat_hash_map<pid_t, size_t> opened_by_;
  size_t most_per_process_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_FILES_OPEN_FILES_H_
