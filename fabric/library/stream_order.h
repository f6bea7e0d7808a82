// Keeps the operations of one communicator in the order of the calls, though they may be in several
// streams.
#ifndef PHANTORA_FABRIC_LIBRARY_STREAM_ORDER_H_
#define PHANTORA_FABRIC_LIBRARY_STREAM_ORDER_H_

#include <cstdint>
#include <vector>

#include "fabric/library/cuda_driver.h"

namespace phantora::nccl {

// The number of the capture that records what is enqueued into `stream`; 0 if it runs.
uint64_t CaptureOf(CudaStream stream);

class StreamOrder {
 public:
  StreamOrder() = default;
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  ncclResult_t Create();  // in the current context
  void Destroy();

  // Around launches into the first of `streams`. All others are ordered with it on both sides; all
  // of them are in `capture`, or in none.
  ncclResult_t Before(const std::vector<CudaStream>& streams, uint64_t capture);
  ncclResult_t After(const std::vector<CudaStream>& streams, uint64_t capture);

  // Whether all that was launched outside of captures is over. Also if the driver cannot say.
  bool Finished() const;

 private:
  // After the last launch. What is recorded in a capture is an edge of that graph and nothing that
  // a stream outside could wait for, so there are two.
  struct Last {
    CudaEvent event = nullptr;
    unsigned long long stream = 0;
    bool recorded = false;
  };

  Last running_, captured_;
  uint64_t capture_ = 0;  // in which captured_ is
  CudaEvent joint_ = nullptr;
};

}  // namespace phantora::nccl

#endif  // PHANTORA_FABRIC_LIBRARY_STREAM_ORDER_H_
