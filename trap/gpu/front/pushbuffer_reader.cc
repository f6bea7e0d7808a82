#include "trap/gpu/front/pushbuffer_reader.h"

#include <algorithm>

#include "trap/abi/methods.h"

namespace phantora {
namespace {

// Words of a segment that are read at a time; a segment may be 8 MiB.
constexpr uint64_t kWordsPerRead = 16384;
// Methods that follow each other up to this many are sooner executed than asked about.
constexpr uint32_t kFewMethods = 6;

}  // namespace

void PushbufferReader::Begin(uint64_t address, uint64_t words) {
  unread_ = address;
  unread_words_ = words;
  segment_.clear();
  position_ = 0;
  left_ = 0;
}

Progress PushbufferReader::Refill(ExecutionContext& context) {
  const uint64_t words = std::min(unread_words_, kWordsPerRead);
  segment_.resize(words);
  position_ = 0;
  if (auto fault = context.memory().Read(unread_, segment_.data(), words * 4)) {
    return context.Check(fault, "pushbuffer");
  }
  unread_ += words * 4;
  unread_words_ -= words;
  return Progress::kDone;
}

Progress PushbufferReader::Run(ExecutionContext& context, MethodSink& sink) {
  for (;;) {
    if (position_ == segment_.size()) {
      if (unread_words_ == 0) return Progress::kDone;
      if (Progress progress = Refill(context); progress != Progress::kDone) return progress;
    }
    if (context.budget <= 0) return Progress::kYield;
    --context.budget;
    if (left_ == 0) {
      const Progress progress = Header(context, sink);
      if (progress != Progress::kDone) return progress;
      continue;
    }
    if (Bulk(context, sink)) continue;
    const Progress progress = sink.Method(context, subchannel_, method_, segment_[position_]);
    if (progress != Progress::kDone) return progress;
    ++position_;
    --left_;
    if (increment_ != Increment::kNever) method_ += 4;
    if (increment_ == Increment::kOnce) increment_ = Increment::kNever;
  }
}

Progress PushbufferReader::Header(ExecutionContext& context, MethodSink& sink) {
  const uint32_t header = segment_[position_++];
  const uint32_t operation = header >> 29;
  const uint32_t count = header >> 16 & 0x1fff;
  subchannel_ = header >> 13 & 7;
  method_ = (header & 0xfff) << 2;
  switch (operation) {
    case abi::kSecOpIncMethod:
      increment_ = Increment::kAlways;
      left_ = count;
      break;
    case abi::kSecOpNonIncMethod:
      increment_ = Increment::kNever;
      left_ = count;
      break;
    case abi::kSecOpOneInc:
      increment_ = Increment::kOnce;
      left_ = count;
      break;
    case abi::kSecOpImmdDataMethod: {
      const Progress progress = sink.Method(context, subchannel_, method_, count);
      if (progress == Progress::kBlocked || progress == Progress::kYield) --position_;
      return progress;
    }
    case abi::kSecOpEndPbSegment:
      position_ = segment_.size();
      unread_words_ = 0;
      break;
    case abi::kSecOpGrp0UseTert:
    case abi::kSecOpGrp2UseTert:
      // The old formats, and SET_SUB_DEVICE_MASK and its kin (tertiary
      // opcodes 1 to 3), which name GPUs of an SLI group and carry no data.
      if ((header >> 16 & 3) == 0 && header != 0) {
        increment_ = operation == abi::kSecOpGrp0UseTert ? Increment::kAlways : Increment::kNever;
        method_ = header & 0x1ffc;
        left_ = header >> 18 & 0x7ff;
      }
      break;
    default:
      return context.Fail(kPbdmaError, header, "malformed pushbuffer header");
  }
  return Progress::kDone;
}

bool PushbufferReader::Bulk(ExecutionContext& context, MethodSink& sink) {
  const bool increments = increment_ == Increment::kAlways;
  if (left_ <= (increments ? kFewMethods : 1)) return false;
  const size_t available = std::min({size_t{left_}, segment_.size() - position_,
                                     static_cast<size_t>(std::max<int64_t>(context.budget, 1))});
  const size_t used = sink.Bulk(context, subchannel_, method_, increments,
                                absl::MakeConstSpan(segment_).subspan(position_, available));
  if (used == 0) return false;
  position_ += used;
  left_ -= used;
  context.budget -= static_cast<int64_t>(used) / 16;
  if (increments) method_ += static_cast<uint32_t>(used) * 4;
  if (increment_ == Increment::kOnce) {
    method_ += 4;
    increment_ = Increment::kNever;
  }
  return true;
}

}  // namespace phantora
