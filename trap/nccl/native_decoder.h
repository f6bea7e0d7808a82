// Reads what a launch of NVIDIA's NCCL is to do: what the formats of all releases have in common.
#ifndef PHANTORA_TRAP_NCCL_NATIVE_DECODER_H_
#define PHANTORA_TRAP_NCCL_NATIVE_DECODER_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "trap/nccl/native_launch.h"

namespace phantora {

// A decoder reads one launch, on one thread, and nothing that it reads is trusted.
class NativeDecoder {
 public:
  struct Input {
    const NativeNccl& library;
    const NativeLayout& layout;
    absl::Span<const uint8_t> parameters;  // of the kernel
    const GpuReader& read;
  };
  virtual ~NativeDecoder() = default;

  absl::StatusOr<NativeLaunch> Decode(const std::string& symbol);

 protected:
  static constexpr int kMostChannels = 64;  // MAXCHANNELS
  // Work structures of one launch; NCCL's ring of work has room for fewer.
  static constexpr size_t kMostWork = 1 << 16;

  explicit NativeDecoder(const Input& input)
      : library_(input.library),
        layout_(input.layout),
        parameters_(input.parameters),
        read_(input.read) {}

  static absl::Status Wrong(std::string what) {
    return absl::InvalidArgumentError(std::move(what));
  }
  template <typename T>
  static T At(const uint8_t* bytes, size_t offset) {
    T value;
    std::memcpy(&value, bytes + offset, sizeof value);
    return value;
  }

  // Bytes of parameters without which there is nothing to read.
  virtual size_t LeastParameters() const = 0;
  // Fills collectives_, messages_ and launch_.stores; the head of launch_ is read by then.
  virtual absl::Status ReadOperations() = 0;

  // The function of this number; nullptr if there is none.
  const NcclFunction* Function(uint32_t number);
  // What the work structure `work` says of a collective, but for its count.
  absl::StatusOr<NativeOperation> CollectiveOf(const NcclFunction& function, const uint8_t* work,
                                               bool argument_is_address) const;
  void AddMessage(nccl::Operation direction, int peer, uint64_t address, uint64_t bytes);

  const NativeNccl& library_;
  const NativeLayout& layout_;
  const absl::Span<const uint8_t> parameters_;
  const GpuReader& read_;
  NativeLaunch launch_;
  std::vector<NativeOperation> collectives_, messages_;

 private:
  absl::Status ReadHead();
  absl::Status CheckKernel(const std::string& symbol) const;

};

// From 2.22 on: work comes in batches, in the kernel's parameters or in a ring.
std::unique_ptr<NativeDecoder> NewBatchDecoder(const NativeDecoder::Input& input);
// Before: work comes in structures of 512 bytes in memory, one list for each channel.
std::unique_ptr<NativeDecoder> NewWorkDecoder(const NativeDecoder::Input& input);

}  // namespace phantora

#endif  // PHANTORA_TRAP_NCCL_NATIVE_DECODER_H_
