#include "trap/nccl/native_launch.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "fabric/collectives/nccl_operation.h"
#include "trap/nccl/native_decoder.h"

namespace phantora {
namespace {

using nccl::Entry;
using nccl::Operation;
using Reduction = NcclFunction::Reduction;

constexpr int kMostRanks = 4096;

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
  return absl::InvalidArgumentError(absl::StrFormat("argument %x of a reduction", argument));
}

}  // namespace

absl::StatusOr<NativeLaunch> NativeDecoder::Decode(const std::string& symbol) {
  if (auto status = ReadHead(); !status.ok()) return status;
  if (auto status = ReadOperations(); !status.ok()) return status;
  if (auto status = CheckKernel(symbol); !status.ok()) return status;
  for (auto& operation : collectives_) launch_.operations.push_back(std::move(operation));
  for (auto& operation : messages_) launch_.operations.push_back(std::move(operation));
  return std::move(launch_);
}

absl::Status NativeDecoder::ReadHead() {
  if (parameters_.size() < LeastParameters()) {
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

const NcclFunction* NativeDecoder::Function(uint32_t number) {
  if (number >= library_.functions.size() || !library_.functions[number]) return nullptr;
  return &*library_.functions[number];
}

// A kernel is made for one function, but runs all that are asked for by number. Which one it was
// made for its name does not tell: kernels that differ in the function alone may have the same
// code, and then all have the name of the first (NCCL 2.19 within TensorFlow).
absl::Status NativeDecoder::CheckKernel(const std::string& symbol) const {
  const bool known =
      ParseNcclFunction(symbol) || absl::StrContains(symbol, "ncclDevKernel_Generic");
  return known ? absl::OkStatus() : Wrong("a kernel of another kind");
}

absl::StatusOr<NativeOperation> NativeDecoder::CollectiveOf(const NcclFunction& function,
                                                            const uint8_t* work,
                                                            bool argument_is_address) const {
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

void NativeDecoder::AddMessage(Operation direction, int peer, uint64_t address, uint64_t bytes) {
  NativeOperation message;
  message.entry = {};
  message.entry.operation = direction;
  message.entry.type = 1;
  message.entry.peer = peer;
  message.entry.count = bytes;
  (direction == Operation::kSend ? message.entry.send : message.entry.receive) = address;
  messages_.push_back(message);
}

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
  const NativeDecoder::Input input = {library, *layout, parameters, read};
  return (layout->batches ? NewBatchDecoder(input) : NewWorkDecoder(input))->Decode(symbol);
}

}  // namespace phantora
