// NCCL 2.22 and later.
#include <bit>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "trap/nccl/native_decoder.h"

namespace phantora {
namespace {

using nccl::Operation;

// ncclDevKernelArgs, and the batches behind it.
constexpr size_t kBatchParameters = 32, kBatchBytes = 16;
// ncclDevWorkType and ncclDevWorkStorageType.
enum BatchType : uint32_t { kBatchMessages, kBatchCollective, kBatchRegistered };
enum Storage : uint8_t { kInParameters, kInRing, kPersistent };
constexpr size_t kMessageBytes = 48;  // ncclDevWorkP2p

class BatchDecoder : public NativeDecoder {
 public:
  explicit BatchDecoder(const Input& input) : NativeDecoder(input) {}

 private:
  size_t LeastParameters() const override { return kBatchParameters; }

  struct Batch {
    uint32_t jump, extends, type, function, offset;
    uint64_t bits;
  };
  std::optional<Batch> BatchAt(size_t index) const {
    const size_t at = kBatchParameters + index * kBatchBytes;
    if (at + kBatchBytes > parameters_.size()) return std::nullopt;
    const auto flags = At<uint32_t>(parameters_.data(), at);
    return Batch{flags & 0x3fff,
                 flags >> 14 & 1,
                 flags >> 15 & 3,
                 flags >> 17,
                 At<uint32_t>(parameters_.data(), at + 4),
                 At<uint64_t>(parameters_.data(), at + 8)};
  }

  // One work structure.
  struct Work {
    Batch batch;
    std::vector<uint8_t> bytes;
    uint64_t channels = 0;  // that do it, as a mask
  };

  bool ReadWork(uint32_t offset, uint8_t* to, size_t bytes) {
    const uint8_t storage = parameters_[16];
    if (storage == kInParameters) {
      if (offset > parameters_.size() || bytes > parameters_.size() - offset) return false;
      std::memcpy(to, parameters_.data() + offset, bytes);
      return true;
    }
    const auto mask = At<uint32_t>(parameters_.data(), 20);
    const auto buffer = At<uint64_t>(parameters_.data(), 24);
    // In pieces as the kernel reads it: the ring may end within.
    for (size_t at = 0; at < bytes; at += 16) {
      if (!read_(buffer + ((offset + static_cast<uint32_t>(at)) & mask), to + at, 16)) return false;
    }
    return true;
  }

  size_t BytesOf(uint32_t type) const {
    return type == kBatchMessages     ? kMessageBytes
           : type == kBatchCollective ? layout_.collective_bytes
                                      : layout_.registered_bytes;
  }

  absl::Status ReadOperations() override {
    if (parameters_[16] > kPersistent) {
      return Wrong(absl::StrFormat("work storage %d", parameters_[16]));
    }
    size_t block = 0;
    for (int channel = 0; channel < kMostChannels; ++channel) {
      if ((launch_.channel_mask >> channel & 1) == 0) continue;
      if (auto status = ReadChannel(channel, block++); !status.ok()) return status;
    }
    // By offset, which is the order in which they were made.
    for (const auto& [offset, work] : works_) {
      auto status = work.batch.type == kBatchMessages ? AddMessages(work) : AddCollective(work);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status ReadChannel(int channel, size_t index) {
    uint32_t consumed = 0;
    for (;;) {
      const auto batch = BatchAt(index);
      if (!batch || batch->type > kBatchRegistered || batch->bits == 0) {
        return Wrong(absl::StrFormat("batch %d", index));
      }
      const size_t bytes = BytesOf(batch->type);
      for (uint64_t bits = batch->bits; bits != 0; bits &= bits - 1) {
        const auto number = static_cast<uint32_t>(std::countr_zero(bits));
        const uint32_t offset = batch->offset + number * static_cast<uint32_t>(bytes);
        // Offsets in the ring wrap; those of one launch are close to each other.
        if (!first_offset_) first_offset_ = offset;
        Work& work = works_[static_cast<int32_t>(offset - *first_offset_)];
        if (work.bytes.empty()) {
          if (works_.size() > kMostWork) return Wrong("too much work");
          work.batch = *batch;
          work.bytes.resize(bytes);
          if (!ReadWork(offset, work.bytes.data(), bytes)) {
            return Wrong(absl::StrFormat("no work at offset %x", offset));
          }
        } else if (work.batch.type != batch->type || work.batch.function != batch->function) {
          return Wrong("work of two functions");
        }
        if ((work.channels >> channel & 1) != 0) return Wrong("work that is done twice");
        work.channels |= uint64_t{1} << channel;
      }
      consumed = batch->offset + static_cast<uint32_t>(std::bit_width(batch->bits) * bytes);
      if (batch->jump == 0) break;
      index += batch->jump;  // only forwards, so this ends
    }
    if (parameters_[16] != kInRing || layout_.consumed_at == 0) return absl::OkStatus();
    uint64_t table = 0;
    if (!read_(launch_.communicator + layout_.consumed_at, &table, sizeof table)) {
      return Wrong("no list of work that was read");
    }
    launch_.stores.push_back({table + 4 * static_cast<uint64_t>(channel), consumed});
    return absl::OkStatus();
  }

  absl::Status AddCollective(const Work& work) {
    const NcclFunction* function = Function(work.batch.function);
    if (function == nullptr || function->message) {
      return Wrong(absl::StrFormat("function %d", work.batch.function));
    }
    const uint8_t* bytes = work.bytes.data();
    const int low = bytes[0], high = bytes[1];
    if (low > high || high >= kMostChannels) return Wrong("channels of a collective");
    const int channels = high - low + 1;
    if (work.channels !=
        (channels == kMostChannels ? ~uint64_t{0} : ((uint64_t{1} << channels) - 1) << low)) {
      return Wrong("a collective of which channels are missing");
    }
    auto operation = CollectiveOf(*function, bytes, (bytes[3] & 1) != 0);
    if (!operation.ok()) return operation.status();
    const auto count = [&](int part) { return At<uint64_t>(bytes, layout_.count_at + 8u * part); };
    operation->entry.count = count(0);
    const bool whole = function->algorithm == NcclAlgorithm::kCollNetDirect ||
                       function->algorithm == NcclAlgorithm::kCollNetChain;
    if (!whole && channels > 1) {
      // The channels in the middle have as much each; bounded, so that nothing wraps.
      constexpr uint64_t kMost = uint64_t{1} << 48;
      if (count(0) > kMost || count(1) > kMost || count(2) > kMost) return Wrong("too large");
      operation->entry.count += count(1) * static_cast<uint64_t>(channels - 2) + count(2);
    }
    collectives_.push_back(*std::move(operation));
    return absl::OkStatus();
  }

  absl::Status AddMessages(const Work& work) {
    const NcclFunction* function = Function(work.batch.function);
    if (function == nullptr || !function->message) {
      return Wrong(absl::StrFormat("function %d", work.batch.function));
    }
    const uint8_t* bytes = work.bytes.data();
    if (bytes[42] > 0) {
      AddMessage(Operation::kSend, At<int32_t>(bytes, 32), At<uint64_t>(bytes, 0),
                 At<uint64_t>(bytes, 16));
    }
    if (bytes[43] > 0) {
      AddMessage(Operation::kReceive, At<int32_t>(bytes, 36), At<uint64_t>(bytes, 8),
                 At<uint64_t>(bytes, 24));
    }
    return absl::OkStatus();
  }

  std::map<int32_t, Work> works_;  // by offset from the first
  std::optional<uint32_t> first_offset_;
};

}  // namespace

std::unique_ptr<NativeDecoder> NewBatchDecoder(const NativeDecoder::Input& input) {
  return std::make_unique<BatchDecoder>(input);
}

}  // namespace phantora
