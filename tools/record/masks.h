// Names for what differs from run to run: handles, GPU ids, UUIDs (recording.h says which).
#ifndef PHANTORA_TOOLS_RECORD_MASKS_H_
#define PHANTORA_TOOLS_RECORD_MASKS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace phantora::record {

// Numbers things as they appear.
class Masks {
 public:
  static constexpr size_t kUuidBytes = 16;

  // Handles are a process's own.
  void BeginProcess() { handles_.clear(); }

  std::string Handle(uint32_t handle);
  // Is it a handle that has appeared, and no number that could be anything?
  bool IsHandle(uint32_t word) const;
  std::string GpuId(uint32_t id);
  std::string Uuid(absl::string_view bytes);
  bool IsUuid(absl::string_view bytes) const;
  // With the UUIDs of GPUs in it replaced.
  std::string Text(absl::string_view text);

 private:
  template <typename Key>
  using Numbers = absl::flat_hash_map<Key, size_t>;

  Numbers<uint32_t> handles_, gpus_;
  Numbers<std::string> uuids_;
};

// Does it lie where Linux puts position-independent programs, libraries and stacks of x86-64?
bool LooksLikeAddress(uint64_t value);

// What hides a member of this name; `name` has no index and no outer member.
enum class MemberMask { kNone, kHandle, kGpuId, kUuid, kTime, kProcess, kToken, kSerial };
MemberMask MaskOf(absl::string_view name);

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_MASKS_H_
