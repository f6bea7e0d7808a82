// Keeps ranks from the machine's real GPUs, whatever name leads there: a Landlock ruleset, which
// the kernel checks at every open. The supervisor looks at names, which links, races and device
// nodes of a rank's own making can get round.
#ifndef PHANTORA_TRAP_LAUNCH_DEVICE_WALL_H_
#define PHANTORA_TRAP_LAUNCH_DEVICE_WALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

class DeviceWall {
 public:
  // Everything may be opened but `closed` (files, and directories with all below), and no device
  // node be made. What appears later beside a closed entry is closed, too. Where the kernel can,
  // nobody inside sends signals to or traces anybody outside. Errors: Unimplemented, the kernel has
  // no Landlock (Linux 5.19), or it is switched off.
  static absl::StatusOr<DeviceWall> Build(const std::vector<std::string>& closed);

  // The nodes of NVIDIA's driver on this machine, the sysfs directories of its devices, and, if
  // there are any of these, the machine's memory and ports, through which root reaches all devices.
  static std::vector<std::string> RealDevices();

  // Puts the calling thread, and what it starts from now on, behind the wall, for good. It must
  // have set no_new_privs. Safe between fork and exec. Returns 0 or an error number. Who enters it
  // once more is behind it together with those that follow him, and without who was there before.
  int Enter() const;

  // Lays nothing in the place of what is closed (HideFiles), since root can change a node without
  // opening it. Before Enter(), which forbids it. Returns 0 or an error number, usually for want
  // of CAP_SYS_ADMIN.
  int Hide() const;
  // What Hide() would return, tried in a child.
  int TryHiding() const;

  // Does the kernel keep signals inside (Linux 6.12)?
  bool keeps_signals() const { return keeps_signals_; }

 private:
  DeviceWall() = default;
  // All of `directory` may be opened but what is in `closed`.
  absl::Status Allow(const std::string& directory, const std::vector<std::string>& closed);
  absl::Status AllowOne(const std::string& path);

  UniqueFd ruleset_;
  std::vector<std::string> closed_;  // resolved
  uint64_t handled_ = 0;             // LANDLOCK_ACCESS_FS_*
  bool keeps_signals_ = false;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LAUNCH_DEVICE_WALL_H_
