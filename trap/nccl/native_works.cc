// NCCL before 2.22.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "trap/nccl/native_decoder.h"

namespace phantora {
namespace {

using nccl::Operation;

constexpr size_t kPointerParameters = 24;  // communicator, mask of channels, work
// ncclWork and its parts.
constexpr size_t kWorkBytes = 512, kWorkHeader = 8, kMessageElementBytes = 28;
constexpr size_t kMessageElements = 16;
enum WorkType : uint8_t { kUnused, kCollective, kMessages, kRegistered };
// Collectives that differ in nothing, in one launch.
constexpr size_t kMostAlike = 256;

class WorkDecoder : public NativeDecoder {
 public:
  explicit WorkDecoder(const Input& input) : NativeDecoder(input) {}

 private:
  size_t LeastParameters() const override { return kPointerParameters; }

  absl::Status ReadOperations() override {
    if (auto status = ReadWorks(); !status.ok()) return status;
    if (auto status = JoinParts(); !status.ok()) return status;
    return JoinChunks();
  }

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

  std::vector<Part> parts_;  // by channel, in each channel's order
  std::map<std::pair<int, Operation>, std::vector<Chunk>> chunks_;
};

}  // namespace

std::unique_ptr<NativeDecoder> NewWorkDecoder(const NativeDecoder::Input& input) {
  return std::make_unique<WorkDecoder>(input);
}

}  // namespace phantora
