#include "tools/record/stream_reader.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace phantora::record {
namespace {

namespace fs = std::filesystem;

constexpr uint16_t kMostBlocks = 8;

// One process's records, one after the other.
class Builder {
 public:
  explicit Builder(int process) : number_(process) {}

  // An error's text, or nullptr.
  const char* Add(const RecordHeader& header, absl::string_view payload) {
    if (header.kind == RecordKind::kProcess) {
      AddProcess(header, payload);
      return nullptr;
    }
    Current().lost = std::max<uint64_t>(Current().lost, header.lost);
    switch (header.kind) {
      case RecordKind::kIoctl:
      case RecordKind::kOpen:
      case RecordKind::kMmap:
      case RecordKind::kFile: {
        RawCall call;
        call.kind = header.kind;
        call.number = header.call;
        call.thread = header.thread;
        call.path = std::string(payload);
        std::copy(std::begin(header.values), std::end(header.values), call.values);
        open_[header.call] = Current().calls.size();
        Current().calls.push_back(std::move(call));
        return nullptr;
      }
      case RecordKind::kBytesIn:
      case RecordKind::kBytesOut:
        return AddBytes(header, payload);
      case RecordKind::kIoctlEnd: {
        RawCall* call = Find(header.call, RecordKind::kIoctl);
        // The call began before records were lost.
        if (call == nullptr) return nullptr;
        call->ended = true;
        call->result = static_cast<int>(header.values[0]);
        call->error = static_cast<int>(header.values[1]);
        open_.erase(header.call);
        return nullptr;
      }
      case RecordKind::kFileBytes: {
        RawCall* call = Find(header.call, RecordKind::kFile);
        if (call == nullptr) return nullptr;
        if (header.values[0] != call->content.size()) return "a file's bytes are not in order";
        call->content.append(payload.data(), payload.size());
        return nullptr;
      }
      default:
        return "a record of an unknown kind";
    }
  }

  std::vector<RawProcess> Finish(bool cut) {
    if (!processes_.empty()) processes_.back().cut = cut;
    return std::move(processes_);
  }

 private:
  void AddProcess(const RecordHeader& header, absl::string_view program) {
    const auto parent = static_cast<int>(header.values[0]);
    if (!processes_.empty() && processes_.back().start == 0 && processes_.back().program.empty()) {
      // A thread was faster than the one that announced the process.
    } else if (!processes_.empty() && processes_.back().start == header.values[1]) {
      // The same process, which has begun another program.
      absl::StrAppend(&processes_.back().program, ", then ", program);
      return;
    } else {
      processes_.emplace_back();
      open_.clear();
    }
    RawProcess& process = processes_.back();
    process.process = number_;
    process.parent = parent;
    process.start = header.values[1];
    process.program = std::string(program);
  }

  const char* AddBytes(const RecordHeader& header, absl::string_view payload) {
    RawCall* call = Find(header.call, RecordKind::kIoctl);
    if (call == nullptr) return nullptr;
    if (header.block >= kMostBlocks) return "a block that no call has";
    if (call->blocks.size() <= header.block) call->blocks.resize(header.block + 1);
    RawBlock& block = call->blocks[header.block];
    block.size = static_cast<uint32_t>(std::min<uint64_t>(header.values[1], UINT32_MAX));
    auto& bytes = header.kind == RecordKind::kBytesIn ? block.in : block.out;
    if (header.values[0] != bytes.size()) return "a block's bytes are not in order";
    if (bytes.size() + payload.size() > block.size) return "more bytes than the block has";
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return nullptr;
  }

  RawProcess& Current() {
    if (processes_.empty()) {
      processes_.emplace_back();
      processes_.back().process = number_;
    }
    return processes_.back();
  }

  RawCall* Find(uint64_t call, RecordKind kind) {
    const auto found = open_.find(call);
    if (found == open_.end() || found->second >= Current().calls.size()) return nullptr;
    RawCall& result = Current().calls[found->second];
    return result.kind == kind ? &result : nullptr;
  }

  const int number_;
  std::vector<RawProcess> processes_;
  absl::flat_hash_map<uint64_t, size_t> open_;  // of the last process: calls, by their number
};

}  // namespace

absl::StatusOr<std::vector<RawProcess>> ReadStream(absl::string_view bytes, int process) {
  Builder builder(process);
  size_t at = 0;
  bool cut = false;
  while (at < bytes.size()) {
    RecordHeader header;
    if (bytes.size() - at < sizeof header) {
      cut = true;
      break;
    }
    std::memcpy(&header, bytes.data() + at, sizeof header);
    if (header.magic != kMagic || header.bytes > kMostPayload) {
      return absl::InvalidArgumentError(
          absl::StrCat("stream of process ", process, ", byte ", at, ": no record begins here"));
    }
    if (bytes.size() - at - sizeof header < header.bytes) {
      cut = true;
      break;
    }
    if (const char* problem = builder.Add(header, bytes.substr(at + sizeof header, header.bytes))) {
      return absl::InvalidArgumentError(
          absl::StrCat("stream of process ", process, ", byte ", at, ": ", problem));
    }
    at += sizeof header + header.bytes;
  }
  return builder.Finish(cut);
}

absl::StatusOr<std::vector<RawProcess>> ReadStreams(const std::string& folder) {
  std::vector<RawProcess> processes;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) {
    return absl::NotFoundError(
        absl::StrCat("cannot read the folder ", folder, ": ", error.message()));
  }
  for (const fs::directory_entry& entry : entries) {
    int process;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &process)) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    auto read = ReadStream(bytes, process);
    if (!read.ok()) return read.status();
    std::move(read->begin(), read->end(), std::back_inserter(processes));
  }
  // The clock is coarse: of processes that it cannot tell apart the lower number is the older one.
  std::sort(processes.begin(), processes.end(), [](const RawProcess& a, const RawProcess& b) {
    return std::tie(a.start, a.process) < std::tie(b.start, b.process);
  });
  return processes;
}

}  // namespace phantora::record
