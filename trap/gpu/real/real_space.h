// An address space that is mirrored on the real GPU: of RealMemory alone.
#ifndef PHANTORA_TRAP_GPU_REAL_REAL_SPACE_H_
#define PHANTORA_TRAP_GPU_REAL_REAL_SPACE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "trap/gpu/real/real_memory.h"
#include "trap/gpu/real/waiting_space.h"

namespace phantora {

class RealMemory::Space : public SpaceElsewhere {
 public:
  Space(RealMemory* owner, AddressSpace* memory, std::unique_ptr<RemoteSpace> remote)
      : owner_(owner), memory_(memory), remote_(std::move(remote), owner->store_) {}

  bool Copy(uint64_t destination, uint64_t source, uint64_t length) override;
  bool Fill(uint64_t address, uint64_t length, const std::vector<uint8_t>& pattern,
            uint64_t phase) override;
  void Unmap(uint64_t address, uint64_t length) override;
  void Ending() override { ending_ = true; }
  void Ended() override {
    const auto self = owner_->spaces_.find(memory_);  // holds this
    auto kept = std::move(self->second);
    owner_->spaces_.erase(self);
    while (!units_.empty()) owner_->Remove(*units_.begin()->second, true);
  }

 private:
  friend class RealMemory;

  RealMemory* const owner_;
  AddressSpace* const memory_;
  WaitingSpace remote_;
  absl::Status status_;
  bool ending_ = false;
  bool counted_ = true;  // its pieces are there: it is awake, and not lost
  uint64_t last_launch_ = 0;
  std::map<uint64_t, std::unique_ptr<Unit>> units_;  // by address
  struct Piece {
    int units = 0;
    bool zeros = true;  // nothing has been in it
  };
  std::map<uint64_t, Piece> pieces_;                    // by address
  std::vector<Unit*> fresh_;                            // of which some pages are here
  absl::flat_hash_map<DeviceMemory*, bool> kept_here_;  // are the driver's own
  // Of memory of the host, by address: bytes, and why it cannot be there.
  struct Host {
    uint64_t bytes;
    absl::Status status;
  };
  std::map<uint64_t, Host> hosts_;
  bool uses_host_ = false;  // the launch at hand may
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_REAL_REAL_SPACE_H_
