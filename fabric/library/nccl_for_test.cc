#include "fabric/library/nccl_for_test.h"

#include <errno.h>

#include <cstring>

#include "fabric/library/device_calls.h"

namespace phantora::nccl {
namespace {

// Those of the test at hand, for functions that are called by pointer.
Supervisor* supervisor;
Driver* driver;

Handle NewCommunicator(int ranks, int rank) {
  const Handle handle = static_cast<Handle>(supervisor->communicators.size() + 1);
  Ask ask = supervisor->next;
  ask.ranks = ranks;
  ask.rank = rank;
  supervisor->communicators[handle] = ask;
  return handle;
}

int MadeUpDevice(unsigned long request, void* argument) {
  if (request != kAsk && request != kLeave && supervisor->error != 0) return supervisor->error;
  switch (request) {
    case kJoin: {
      auto& join = *static_cast<Join*>(argument);
      join.handle = NewCommunicator(join.ranks, join.rank);
      supervisor->joins.push_back(join);
      return 0;
    }
    case kSplit: {
      auto& split = *static_cast<Split*>(argument);
      split.handle = NewCommunicator(split.color < 0 ? 0 : 2, split.color < 0 ? 0 : 1);
      supervisor->splits.push_back(split);
      return 0;
    }
    case kShrink: {
      auto& shrink = *static_cast<Shrink*>(argument);
      shrink.handle = NewCommunicator(3, 0);
      supervisor->shrinks.push_back(shrink);
      return 0;
    }
    case kAsk: {
      auto& ask = *static_cast<Ask*>(argument);
      ++supervisor->asks;
      const auto found = supervisor->communicators.find(ask.handle);
      if (found == supervisor->communicators.end()) return EBADF;
      const Handle handle = ask.handle;
      ask = found->second;
      ask.handle = handle;
      if (supervisor->pending_asks > 0) {
        --supervisor->pending_asks;
        ask.state = State::kPending;
      }
      return 0;
    }
    case kLeave:
      supervisor->leaves.push_back(*static_cast<Leave*>(argument));
      return 0;
  }
  return EINVAL;
}

std::string Name(const void* pointer) {
  return std::to_string(reinterpret_cast<uintptr_t>(pointer));
}

thread_local std::vector<CudaContext> stack;  // of contexts, the current one last

void AddContextsAndModules(CudaDriver& d) {
  d.Init = [](unsigned) { return 0; };
  d.GetErrorName = [](CudaResult, const char** name) { return *name = "ERROR", 0; };
  d.DeviceGet = [](int* device, int ordinal) { return *device = ordinal, 0; };
  d.DeviceGetCount = [](int* count) { return *count = 4, 0; };
  d.DeviceGetAttribute = [](int* value, int, int) { return *value = driver->compute_major, 0; };
  d.DeviceGetUuid = [](void* uuid, int device) { return memset(uuid, device + 1, 16), 0; };
  d.DevicePrimaryCtxRetain = [](CudaContext* context, int device) {
    *context = reinterpret_cast<CudaContext>(uintptr_t{100} + device);
    return 0;
  };
  d.CtxGetCurrent = [](CudaContext* context) {
    *context = stack.empty() ? nullptr : stack.back();
    return 0;
  };
  d.CtxSetCurrent = [](CudaContext context) { return stack.assign(1, context), 0; };
  d.CtxPushCurrent = [](CudaContext context) { return stack.push_back(context), 0; };
  d.CtxPopCurrent = [](CudaContext*) { return stack.pop_back(), 0; };
  d.CtxGetDevice = [](int* device) {
    *device = static_cast<int>(reinterpret_cast<uintptr_t>(stack.back()) - 100);
    return 0;
  };
  d.ModuleLoadData = [](CudaModule*, const void*) { return 0; };
  d.ModuleGetFunction = [](CudaFunction* function, CudaModule, const char* name) {
    *function =
        reinterpret_cast<CudaFunction>(uintptr_t{strcmp(name, kMarkerKernel) == 0 ? 1u : 2u});
    return 0;
  };
  d.FuncGetAttribute = [](int*, int, CudaFunction) { return 0; };
  d.LaunchKernel = [](CudaFunction function, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, unsigned, CudaStream stream, void** parameters, void**) {
    Launched launched = {};
    launched.is_long = function == reinterpret_cast<CudaFunction>(2);
    memcpy(&launched.marker, parameters[0], launched.is_long ? sizeof(LongMarker) : sizeof(Marker));
    launched.stream = stream;
    driver->launches.push_back(launched);
    driver->order.push_back("launch " + Name(stream));
    return 0;
  };
}

void AddStreamsAndEvents(CudaDriver& d) {
  d.EventCreate = [](CudaEvent* event, unsigned) {
    *event = reinterpret_cast<CudaEvent>(++driver->last_event);
    return 0;
  };
  d.EventDestroy = [](CudaEvent) { return 0; };
  d.EventRecord = [](CudaEvent event, CudaStream stream) {
    driver->order.push_back("record " + Name(event) + " in " + Name(stream));
    return 0;
  };
  d.EventQuery = [](CudaEvent) { return driver->unready_queries-- > 0 ? kCudaErrorNotReady : 0; };
  d.StreamWaitEvent = [](CudaStream stream, CudaEvent event, unsigned) {
    driver->order.push_back("wait for " + Name(event) + " in " + Name(stream));
    return 0;
  };
  d.StreamGetCaptureInfo = [](CudaStream stream, int* status, uint64_t* id, void*, void*, size_t*) {
    *id = driver->captures[stream];
    *status = *id != 0;
    return 0;
  };
  d.ThreadExchangeStreamCaptureMode = [](int*) { return 0; };
}

void AddMemory(CudaDriver& d) {
  d.MemAlloc = [](CudaAddress* address, size_t) { return *address = 0x1000, 0; };
  d.MemFree = [](CudaAddress) { return 0; };
  d.MemcpyAsync = [](CudaAddress to, CudaAddress from, size_t size, CudaStream stream) {
    driver->order.push_back("copy " + std::to_string(size) + " in " + Name(stream));
    return 0;
  };
}

CudaDriver MadeUpCuda() {
  CudaDriver d = {};
  AddContextsAndModules(d);
  AddStreamsAndEvents(d);
  AddMemory(d);
  return d;
}

}  // namespace

CudaStream Stream(uintptr_t number) { return reinterpret_cast<CudaStream>(number); }

void* At(uintptr_t address) { return reinterpret_cast<void*>(address); }

Nccl::Nccl() {
  supervisor = &supervisor_;
  driver = &driver_;
  supervisor_.next.state = State::kReady;
  static const CudaDriver cuda = MadeUpCuda();
  SetCudaForTest(&cuda);
  SetDeviceForTest(MadeUpDevice);
  cuda.CtxSetCurrent(reinterpret_cast<CudaContext>(uintptr_t{102}));
}

ncclComm_t Nccl::Join(int ranks, int rank, ncclConfig_t* config) {
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, ranks, {}, rank, config), ncclSuccess)
      << ncclGetLastError(nullptr);
  return comm;
}

}  // namespace phantora::nccl
