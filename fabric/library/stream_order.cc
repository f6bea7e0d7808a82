#include "fabric/library/stream_order.h"

namespace phantora::nccl {
namespace {

#define PHANTORA_NCCL_CHECK_CUDA(call)                                               \
  if (const ncclResult_t checked = CheckCuda(call, #call); checked != ncclSuccess) { \
    return checked;                                                                  \
  }

// Streams are made at addresses of dead ones; their numbers are used once. A captured stream must
// not be asked for it, which would end the capture.
unsigned long long StreamNumber(CudaStream stream, uint64_t capture) {
  unsigned long long number;
  if (capture == 0 && Cuda()->StreamGetId != nullptr &&
      Cuda()->StreamGetId(stream, &number) == kCudaSuccess) {
    return number;
  }
  return reinterpret_cast<uintptr_t>(stream);
}

}  // namespace

uint64_t CaptureOf(CudaStream stream) {
  int status = kCaptureStatusNone;
  uint64_t id = 0;
  // An error here means the legacy stream beside a captured one; the launch will say so.
  if (Cuda()->StreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr) !=
      kCudaSuccess) {
    return 0;
  }
  return status == kCaptureStatusNone ? 0 : id;
}

ncclResult_t StreamOrder::Create() {
  for (CudaEvent* event : {&running_.event, &captured_.event, &joint_}) {
    PHANTORA_NCCL_CHECK_CUDA(Cuda()->EventCreate(event, kEventDisableTiming));
  }
  return ncclSuccess;
}

void StreamOrder::Destroy() {
  for (CudaEvent* event : {&running_.event, &captured_.event, &joint_}) {
    if (*event != nullptr) Cuda()->EventDestroy(*event);
    *event = nullptr;
  }
  running_.recorded = captured_.recorded = false;
}

ncclResult_t StreamOrder::Before(const std::vector<CudaStream>& streams, uint64_t capture) {
  const CudaDriver& cuda = *Cuda();
  const CudaStream first = streams.front();
  const Last& last = capture == 0 ? running_ : captured_;
  if (last.recorded && (capture == 0 || capture == capture_) &&
      last.stream != StreamNumber(first, capture)) {
    PHANTORA_NCCL_CHECK_CUDA(cuda.StreamWaitEvent(first, last.event, 0));
  }
  for (size_t i = 1; i < streams.size(); ++i) {
    PHANTORA_NCCL_CHECK_CUDA(cuda.EventRecord(joint_, streams[i]));
    PHANTORA_NCCL_CHECK_CUDA(cuda.StreamWaitEvent(first, joint_, 0));
  }
  return ncclSuccess;
}

ncclResult_t StreamOrder::After(const std::vector<CudaStream>& streams, uint64_t capture) {
  const CudaDriver& cuda = *Cuda();
  Last& last = capture == 0 ? running_ : captured_;
  PHANTORA_NCCL_CHECK_CUDA(cuda.EventRecord(last.event, streams.front()));
  last.stream = StreamNumber(streams.front(), capture);
  last.recorded = true;
  if (capture != 0) capture_ = capture;
  for (size_t i = 1; i < streams.size(); ++i) {
    PHANTORA_NCCL_CHECK_CUDA(cuda.StreamWaitEvent(streams[i], last.event, 0));
  }
  return ncclSuccess;
}

bool StreamOrder::Finished() const {
  return !running_.recorded || Cuda()->EventQuery(running_.event) != kCudaErrorNotReady;
}

}  // namespace phantora::nccl
