// An address space of the real GPU that need not be there all the time.
#ifndef PHANTORA_TRAP_GPU_REAL_WAITING_SPACE_H_
#define PHANTORA_TRAP_GPU_REAL_WAITING_SPACE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "trap/gpu/real/remote_gpu.h"
#include "uvm_model/device_memory.h"
#include "uvm_model/page_store.h"

namespace phantora {

// It is awake, and what is asked for happens there; or it waits: its memory lies in pages of the
// host, and what is asked for is noted, to happen once it is awake again. All statuses but those of
// Reserve, MapHost and Know mean that it is lost.
class WaitingSpace {
 public:
  WaitingSpace(std::unique_ptr<RemoteSpace> remote, std::shared_ptr<PageStore> store)
      : remote_(std::move(remote)), store_(std::move(store)) {}

  bool is_awake() const { return awake_; }
  // Pieces that it has there, or will have once it is awake.
  uint64_t pieces() const { return pieces_.size(); }
  // Whether so much is noted that it should have a turn.
  bool is_full() const { return notes_.size() >= kMostNotes || noted_bytes_ >= kMostNotedBytes; }
  bool has_notes() const { return !notes_.empty(); }
  // Its memory comes to the host. It must be awake.
  absl::Status Sleep();
  // Its memory goes there, and what was noted happens.
  absl::Status Wake();

  absl::Status Reserve(uint64_t address) { return remote_->Reserve(address); }
  // A piece of zeros more.
  absl::Status Map(uint64_t address);
  // One less. It must be awake, or nothing be noted.
  absl::Status Unmap(uint64_t address);
  absl::Status MapHost(uint64_t address, uint64_t bytes, int file, uint64_t offset) {
    return remote_->MapHost(address, bytes, file, offset);
  }
  absl::Status UnmapHost(uint64_t address, uint64_t bytes) {
    return remote_->UnmapHost(address, bytes);
  }
  absl::Status Put(uint64_t address, uint64_t bytes, absl::FunctionRef<void(uint8_t*)> fill);
  // It must be awake, or nothing be noted. Within a piece.
  absl::Status Get(uint64_t address, uint64_t bytes, absl::FunctionRef<bool(const uint8_t*)> take);
  absl::Status Copy(uint64_t to, uint64_t from, uint64_t bytes);
  absl::Status Fill(uint64_t address, uint64_t bytes, absl::Span<const uint8_t> pattern);
  absl::StatusOr<uint64_t> Know(const KernelImage& image, const std::string& symbol) {
    return remote_->Know(image, symbol);
  }
  absl::Status Launch(const RemoteLaunch& launch);
  // It must be awake.
  absl::Status Finish() { return remote_->Finish(); }

 private:
  static constexpr uint64_t kPiece = RemoteSpace::kPiece;
  static constexpr size_t kMostNotes = 1 << 14;
  static constexpr uint64_t kMostNotedBytes = uint64_t{256} << 20;

  // What is to happen.
  struct Note {
    enum class Kind { kPut, kCopy, kFill, kLaunch } kind;
    uint64_t address = 0, from = 0, bytes = 0;
    std::vector<uint8_t> data;  // to be put, a pattern, or parameters
    RemoteLaunch launch;
  };
  void Add(Note note);
  absl::Status Do(const Note& note);

  std::unique_ptr<RemoteSpace> remote_;
  std::shared_ptr<PageStore> store_;
  bool awake_ = true;
  // By address: what is in them while it waits; nullptr: zeros.
  std::map<uint64_t, std::unique_ptr<DeviceMemory>> pieces_;
  std::deque<Note> notes_;
  uint64_t noted_bytes_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_REAL_WAITING_SPACE_H_
