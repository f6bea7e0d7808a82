#include "trap/nccl/native_launch.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "fabric/collectives/nccl_operation.h"

namespace phantora {
namespace {

using nccl::Entry;
using nccl::Operation;
using Reduction = NcclFunction::Reduction;

constexpr int kMostChannels = 64;  // MAXCHANNELS
constexpr int kMostRanks = 4096;
// Of one launch; NCCL's ring of work has room for fewer.
constexpr size_t kMostWork = 1 << 16;

// The parameters of kernels before 2.22, and ncclDevKernelArgs since.
constexpr size_t kPointerParameters = 24, kBatchParameters = 32;
constexpr size_t kBatchBytes = 16;
// ncclWork and its parts, before 2.22.
constexpr size_t kWorkBytes = 512, kWorkHeader = 8, kMessageElementBytes = 28;
constexpr size_t kMessageElements = 16;
enum WorkType : uint8_t { kUnused, kCollective, kMessages, kRegistered };
// ncclDevWorkType and ncclDevWorkStorageType, since.
enum BatchType : uint32_t { kBatchMessages, kBatchCollective, kBatchRegistered };
enum Storage : uint8_t { kInParameters, kInRing, kPersistent };
constexpr size_t kMessageBytes = 48;  // ncclDevWorkP2p

absl::Status Wrong(std::string what) { return absl::InvalidArgumentError(std::move(what)); }

template <typename T>
T At(const uint8_t* bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes + offset, sizeof value);
  return value;
}

uint64_t Mask(int64_t bytes) { return bytes >= 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * bytes) - 1; }

// What the host's type and reduction were. Unsigned functions serve signed integers too where the
// result is the same; where it is not, the argument tells (hostToDevRedOp in src/enqueue.cc).
absl::Status SetReduction(const NcclFunction& function, int version, uint64_t argument,
                          bool is_address, int ranks, Entry& entry) {
  constexpr uint8_t kInteger8 = 0, kLastInteger = 5;  // signed ones are even
  const int64_t bytes = NcclTypeBytes(entry.type);
  const bool integer = entry.type <= kLastInteger;
  const auto make_signed = [&](bool is_signed) {
    if (!integer) return;
    const int width = entry.type / 2;  // 8, 32, 64 bits
    entry.type = static_cast<uint8_t>(kInteger8 + 2 * width + (is_signed ? 0 : 1));
  };
  switch (function.reduction) {
    case Reduction::kNone:
      return absl::OkStatus();
    case Reduction::kSum:
      entry.reduction = nccl::kSum;
      return absl::OkStatus();
    case Reduction::kProd:
      entry.reduction = nccl::kProd;
      return absl::OkStatus();
    case Reduction::kPreMulSum:
      entry.reduction = nccl::kPreMulSum;
      entry.scalar = argument;
      entry.scalar_on_device = is_address ? 1 : 0;
      return absl::OkStatus();
    case Reduction::kMinMax: {
      // All bits for a maximum; of signed integers, the sign bit is the other way round.
      const uint64_t all = Mask(bytes), sign = all ^ all >> 1;
      if (is_address || (argument & ~all) != 0) break;
      const bool is_signed = integer && (argument == sign || argument == (all ^ sign));
      const uint64_t plain = is_signed ? argument ^ sign : argument;
      if (plain != 0 && plain != all) break;
      make_signed(is_signed);
      entry.reduction = plain == all ? nccl::kMax : nccl::kMin;
      return absl::OkStatus();
    }
    case Reduction::kSumPostDiv: {
      // From 2.24 on, the lowest bit says whether the type is signed; before, the function does.
      const bool tells = version >= 22400;
      if (is_address || !integer) break;
      if ((tells ? argument >> 1 : argument) != static_cast<uint64_t>(ranks)) break;
      if (tells) make_signed((argument & 1) != 0);
      entry.reduction = nccl::kAvg;
      return absl::OkStatus();
    }
  }
  return Wrong(absl::StrFormat("argument %x of a reduction", argument));
}

class Decoder {
 public:
  Decoder(const NativeNccl& library, const NativeLayout& layout,
          absl::Span<const uint8_t> parameters, const GpuReader& read)
      : library_(library), layout_(layout), parameters_(parameters), read_(read) {}

  absl::StatusOr<NativeLaunch> Run(const std::string& symbol) {
    if (auto status = ReadHead(); !status.ok()) return status;
    auto status = layout_.batches ? ReadBatches() : ReadWorks();
    if (status.ok() && !layout_.batches) status = JoinParts();
    if (status.ok() && !layout_.batches) status = JoinChunks();
    if (status.ok()) status = CheckKernel(symbol);
    if (!status.ok()) return status;
    for (auto& operation : collectives_) launch_.operations.push_back(std::move(operation));
    for (auto& operation : messages_) launch_.operations.push_back(std::move(operation));
    return std::move(launch_);
  }

 private:
  absl::Status ReadHead() {
    if (parameters_.size() < (layout_.batches ? kBatchParameters : kPointerParameters)) {
      return Wrong(absl::StrFormat("%d bytes of parameters", parameters_.size()));
    }
    launch_.communicator = At<uint64_t>(parameters_.data(), 0);
    launch_.channel_mask = At<uint64_t>(parameters_.data(), 8);
    int32_t head[2];
    if (!read_(launch_.communicator, head, sizeof head)) return Wrong("no communicator");
    launch_.rank = head[0], launch_.ranks = head[1];
    if (launch_.ranks < 1 || launch_.ranks > kMostRanks || launch_.rank < 0 ||
        launch_.rank >= launch_.ranks) {
      return Wrong(absl::StrFormat("rank %d of %d", launch_.rank, launch_.ranks));
    }
    if (launch_.channel_mask == 0) return Wrong("no channels");
    return absl::OkStatus();
  }

  // The function of this number; nullptr if there is none.
  const NcclFunction* Function(uint32_t number) {
    if (number >= library_.functions.size() || !library_.functions[number]) return nullptr;
    used_.insert(number);
    return &*library_.functions[number];
  }

  // A kernel is made for one function, but runs all; of those that it is given, one must be its
  // own, or else these are not the numbers of this library.
  absl::Status CheckKernel(const std::string& symbol) {
    const auto kernel = ParseNcclFunction(symbol);
    if (!kernel) {
      if (symbol.find("ncclDevKernel_Generic") != std::string::npos) return absl::OkStatus();
      return Wrong("a kernel of another kind");
    }
    for (const uint32_t number : used_) {
      const NcclFunction& function = *library_.functions[number];
      if (function.message != kernel->message) continue;
      if (kernel->message) return absl::OkStatus();
      if (function.operation == kernel->operation &&
          NcclTypeBytes(function.type) == NcclTypeBytes(kernel->type)) {
        return absl::OkStatus();
      }
    }
    return Wrong(absl::StrCat("functions that ", symbol, " is not for"));
  }

  absl::StatusOr<NativeOperation> CollectiveOf(const NcclFunction& function, const uint8_t* work,
                                               bool argument_is_address) {
    NativeOperation operation;
    Entry& entry = operation.entry;
    entry = {};
    entry.operation = function.operation;
    const bool reduces = function.reduction != Reduction::kNone;
    entry.type = reduces ? function.type : 1;  // bytes
    entry.send = At<uint64_t>(work, layout_.send_at);
    entry.receive = At<uint64_t>(work, layout_.receive_at);
    if (function.operation == Operation::kBroadcast || function.operation == Operation::kReduce) {
      entry.peer = At<int32_t>(work, layout_.root_at);
    }
    const auto argument = At<uint64_t>(work, layout_.argument_at);
    if (auto status = SetReduction(function, library_.version, argument, argument_is_address,
                                   launch_.ranks, entry);
        !status.ok()) {
      return status;
    }
    operation.given = {function.algorithm, function.protocol};
    return operation;
  }

  void AddMessage(Operation direction, int peer, uint64_t address, uint64_t bytes) {
    NativeOperation message;
    message.entry = {};
    message.entry.operation = direction;
    message.entry.type = 1;
    message.entry.peer = peer;
    message.entry.count = bytes;
    (direction == Operation::kSend ? message.entry.send : message.entry.receive) = address;
    messages_.push_back(message);
  }

  // --- From 2.22 on ------------------------------------------------------------------

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

  absl::Status ReadBatches() {
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

  // --- Before 2.22 -------------------------------------------------------------------

  // What one channel does of a collective.
  struct Part {
    uint32_t function;
    std::vector<uint8_t> bytes;  // ncclWorkElem
    uint64_t begin, end, of;     // in elements of the whole, or in channels
    int channel;
  };
  // What one channel does of a send or receive.
  struct Chunk {
    int channel;
    uint64_t address, bytes;
    bool used = false;
  };

  absl::Status ReadWorks() {
    const auto works = At<uint64_t>(parameters_.data(), 16);
    size_t block = 0, all = 0;
    for (int channel = 0; channel < kMostChannels; ++channel) {
      if ((launch_.channel_mask >> channel & 1) == 0) continue;
      uint64_t address = works + kWorkBytes * block++;
      for (std::set<uint64_t> seen;;) {
        if (!seen.insert(address).second) return Wrong("work in a circle");
        if (++all > kMostWork) return Wrong("too much work");
        uint8_t work[kWorkBytes];
        if (!read_(address, work, sizeof work)) {
          return Wrong(absl::StrFormat("no work at %x", address));
        }
        if (auto status = ReadWork(channel, work); !status.ok()) return status;
        const bool last = (work[6] & 1) != 0, in_ring = (work[6] & 2) != 0;
        const auto next = At<int32_t>(work, 0);
        if (!last) {
          address = works + static_cast<uint64_t>(int64_t{next}) * kWorkBytes;
          continue;
        }
        uint64_t done = 0;
        const uint64_t of_channel = launch_.communicator + layout_.channels_at +
                                    static_cast<uint64_t>(channel) * layout_.channel_bytes;
        if (!in_ring) break;
        if (!read_(of_channel + layout_.consumed_at, &done, sizeof done)) {
          return Wrong("no channel");
        }
        launch_.stores.push_back({done, static_cast<uint32_t>(next)});
        break;
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadWork(int channel, const uint8_t* work) {
    const auto number = At<uint16_t>(work, 4);
    const NcclFunction* function = Function(number);
    const uint8_t type = work[7];
    if (function == nullptr || type == kUnused || type > kRegistered ||
        function->message != (type == kMessages)) {
      return Wrong(absl::StrFormat("work of type %d for function %d", type, number));
    }
    if (type == kMessages) {
      for (size_t i = 0; i < kMessageElements; ++i) {
        const uint8_t* element = work + kWorkHeader + i * kMessageElementBytes;
        if (element[4] == 0) continue;
        if (element[4] > 2) return Wrong(absl::StrFormat("message of type %d", element[4]));
        // peer:30, with a sign
        const int peer = At<int32_t>(element, 0) << 2 >> 2;
        const uint64_t address =
            uint64_t{At<uint32_t>(element, 8)} << 32 | At<uint32_t>(element, 12);
        const uint64_t bytes =
            uint64_t{At<uint32_t>(element, 16)} << 32 | At<uint32_t>(element, 20);
        auto& chunks = chunks_[{peer, element[4] == 1 ? Operation::kSend : Operation::kReceive}];
        chunks.push_back({channel, address, bytes});
      }
      return absl::OkStatus();
    }
    const size_t step = type == kCollective ? layout_.collective_bytes : layout_.registered_bytes;
    for (size_t at = kWorkHeader; at + step <= kWorkBytes && (work[at] & 1) != 0; at += step) {
      const uint8_t* element = work + at;
      Part part = {number, {element, element + layout_.collective_bytes}, 0, 0, 0, channel};
      const bool by_number = layout_.by_number || (function->algorithm != NcclAlgorithm::kRing &&
                                                   function->algorithm != NcclAlgorithm::kTree);
      if (layout_.by_number) {
        part.begin = element[44], part.of = element[45];
      } else if (by_number) {
        part.begin = At<uint32_t>(element, 48), part.of = At<uint32_t>(element, 52);
      } else {
        // {chunkCount:25, workCount:39}, {lastChunkCount:25, workOffset:39}
        part.begin = At<uint64_t>(element, 48) >> 25;
        part.of = At<uint64_t>(element, layout_.count_at);
        part.end = part.begin + (At<uint64_t>(element, 40) >> 25);
      }
      if (by_number) part.end = part.begin + 1;
      if (part.begin >= part.end || part.end > part.of) return Wrong("a part of a collective");
      parts_.push_back(std::move(part));
    }
    return absl::OkStatus();
  }

  // A collective in the making.
  struct Whole {
    const Part* first;
    std::map<uint64_t, uint64_t> parts;  // end by begin
    uint64_t channels = 0;
    std::set<size_t> after;  // collectives that have to come before it
  };

  // Fits if nobody has that part yet, and the channel has none.
  static bool Take(const Part& part, Whole& whole) {
    if ((whole.channels >> part.channel & 1) != 0) return false;
    const auto next = whole.parts.lower_bound(part.begin);
    if (next != whole.parts.end() && next->first < part.end) return false;
    if (next != whole.parts.begin() && std::prev(next)->second > part.begin) return false;
    whole.parts[part.begin] = part.end;
    whole.channels |= uint64_t{1} << part.channel;
    return true;
  }

  // What makes parts belong together.
  using Key = std::tuple<uint32_t, uint64_t, uint64_t, uint64_t, uint32_t, uint64_t, uint64_t>;
  Key KeyOf(const Part& part) const {
    const uint8_t* bytes = part.bytes.data();
    return {part.function,
            At<uint64_t>(bytes, layout_.send_at),
            At<uint64_t>(bytes, layout_.receive_at),
            At<uint64_t>(bytes, layout_.count_at),
            At<uint32_t>(bytes, layout_.root_at),
            At<uint64_t>(bytes, layout_.argument_at),
            part.of};
  }

  absl::Status JoinParts() {
    std::vector<Whole> wholes;
    std::map<Key, std::vector<size_t>> by_key;
    int channel = -1;
    size_t before = 0;
    for (const Part& part : parts_) {
      auto& candidates = by_key[KeyOf(part)];
      // Those that have all their parts take none. The same collective over and over in one launch
      // costs its square; it is bounded by kMostWork, and by who does that.
      auto taken = std::find_if(candidates.begin(), candidates.end(),
                                [&](size_t i) { return Take(part, wholes[i]); });
      if (taken == candidates.end()) {
        if (candidates.size() > kMostAlike) return Wrong("the same collective too often");
        candidates.push_back(wholes.size());
        wholes.push_back({&part, {}, 0, {}});
        Take(part, wholes.back());
        taken = std::prev(candidates.end());
      }
      if (part.channel == channel) wholes[*taken].after.insert(before);
      channel = part.channel;
      before = *taken;
    }
    for (const Whole& whole : wholes) {
      uint64_t end = 0;
      for (const auto& [begin, until] : whole.parts) {
        if (begin != end) return Wrong("a collective of which parts are missing");
        end = until;
      }
      if (end != whole.first->of) return Wrong("a collective of which parts are missing");
    }
    // Channels are walked in order, so that the first that may come next is the same everywhere.
    std::vector<size_t> waiting(wholes.size());
    std::vector<std::vector<size_t>> then(wholes.size());
    std::set<size_t> ready;
    for (size_t i = 0; i < wholes.size(); ++i) {
      for (const size_t earlier : wholes[i].after) then[earlier].push_back(i);
      waiting[i] = wholes[i].after.size();
      if (waiting[i] == 0) ready.insert(i);
    }
    while (!ready.empty()) {
      const size_t i = *ready.begin();
      ready.erase(ready.begin());
      const Part& part = *wholes[i].first;
      auto operation = CollectiveOf(*library_.functions[part.function], part.bytes.data(),
                                    (part.bytes[0] & 2) != 0);
      if (!operation.ok()) return operation.status();
      operation->entry.count = At<uint64_t>(part.bytes.data(), layout_.count_at);
      collectives_.push_back(*std::move(operation));
      for (const size_t later : then[i]) {
        if (--waiting[later] == 0) ready.insert(later);
      }
    }
    if (collectives_.size() != wholes.size()) return Wrong("collectives in a circle");
    return absl::OkStatus();
  }

  // A message's chunks follow each other in memory, and each has a channel of its own; the first
  // has the same channel in all messages to one peer.
  absl::Status JoinChunks() {
    for (auto& [to, chunks] : chunks_) {
      const auto lowest =
          std::min_element(chunks.begin(), chunks.end(), [](const Chunk& a, const Chunk& b) {
            return std::pair(a.bytes == 0, a.address) < std::pair(b.bytes == 0, b.address);
          });
      const int base = lowest->channel;
      for (size_t i = 0; i < chunks.size(); ++i) {
        if (chunks[i].channel != base) continue;
        uint64_t channels = uint64_t{1} << base, end = chunks[i].address + chunks[i].bytes;
        chunks[i].used = true;
        for (bool more = chunks[i].bytes > 0; more;) {
          const auto next = std::find_if(chunks.begin(), chunks.end(), [&](const Chunk& chunk) {
            return !chunk.used && chunk.channel != base && chunk.bytes > 0 &&
                   chunk.address == end && (channels >> chunk.channel & 1) == 0;
          });
          more = next != chunks.end();
          if (!more) break;
          next->used = true;
          channels |= uint64_t{1} << next->channel;
          end += next->bytes;
        }
        AddMessage(to.second, to.first, chunks[i].address, end - chunks[i].address);
      }
      if (!std::all_of(chunks.begin(), chunks.end(), [](const Chunk& c) { return c.used; })) {
        return Wrong("a message of which parts are missing");
      }
    }
    return absl::OkStatus();
  }

  static constexpr size_t kMostAlike = 256;

  const NativeNccl& library_;
  const NativeLayout& layout_;
  const absl::Span<const uint8_t> parameters_;
  const GpuReader& read_;
  NativeLaunch launch_;
  std::set<uint32_t> used_;  // numbers of functions
  std::vector<NativeOperation> collectives_, messages_;
  std::map<int32_t, Work> works_;  // by offset from the first
  std::optional<uint32_t> first_offset_;
  std::vector<Part> parts_;  // by channel, in each channel's order
  std::map<std::pair<int, Operation>, std::vector<Chunk>> chunks_;
};

}  // namespace

absl::StatusOr<NativeLaunch> DecodeNativeLaunch(const NativeNccl& library,
                                                const std::string& symbol,
                                                absl::Span<const uint8_t> parameters,
                                                const GpuReader& read) {
  const NativeLayout* layout = FindNativeLayout(library.version);
  if (layout == nullptr) {
    return absl::UnimplementedError(
        absl::StrFormat("NCCL %d.%d.%d, whose launches are not known", library.version / 10000,
                        library.version / 100 % 100, library.version % 100));
  }
  return Decoder(library, *layout, parameters, read).Run(symbol);
}

}  // namespace phantora
