// The library on a made-up CUDA driver and a made-up supervisor, for its tests.
#ifndef PHANTORA_FABRIC_LIBRARY_NCCL_FOR_TEST_H_
#define PHANTORA_FABRIC_LIBRARY_NCCL_FOR_TEST_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fabric/library/cuda_driver.h"
#include "fabric/library/nccl_api.h"
#include "fabric/library/wire.h"

namespace phantora::nccl {

// What the made-up supervisor was asked, and what it is to answer.
struct Supervisor {
  std::map<Handle, Ask> communicators;
  std::vector<Join> joins;
  std::vector<Split> splits;
  std::vector<Shrink> shrinks;
  std::vector<Leave> leaves;
  std::atomic<int> asks{0};
  std::atomic<int> pending_asks{0};  // that many are answered with "pending"
  int error = 0;                     // of joins and the like
  Ask next = {};                     // what becomes of the next communicator
};

// What the made-up driver was asked, and what it is to answer.
struct Launched {
  bool is_long;
  LongMarker marker;
  CudaStream stream;
};
struct Driver {
  std::vector<Launched> launches;
  std::vector<std::string> order;  // of launches, records, waits and copies
  std::map<CudaStream, uint64_t> captures;
  int compute_major = 8;
  int unready_queries = 0;
  uintptr_t last_event = 0;
};

CudaStream Stream(uintptr_t number);
void* At(uintptr_t address);

class Nccl : public testing::Test {
 protected:
  Nccl();

  ncclComm_t Join(int ranks = 4, int rank = 1, ncclConfig_t* config = nullptr);

  Supervisor supervisor_;
  Driver driver_;
};

}  // namespace phantora::nccl

#endif  // PHANTORA_FABRIC_LIBRARY_NCCL_FOR_TEST_H_
