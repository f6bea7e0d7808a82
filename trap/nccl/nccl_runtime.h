// NCCL's operations as work of the emulated GPUs.
#ifndef PHANTORA_TRAP_NCCL_NCCL_RUNTIME_H_
#define PHANTORA_TRAP_NCCL_NCCL_RUNTIME_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "fabric/collectives/nccl_world.h"
#include "trap/gpu/timeline/shared_work.h"
#include "trap/nccl/engine_reduce.h"
#include "trap/nccl/native_communicators.h"
#include "trap/nccl/native_library.h"
#include "trap/nccl/payload.h"

namespace phantora {

// Joins the launches of libnccl.so.2's marker kernels (fabric/library/wire.h), or of NVIDIA's own
// (native_launch.h), to operations. Needs the machine's lock.
class NcclRuntime : public SharedWork {
 public:
  struct Options {
    FlowNetwork* network;
    TransferPlanner* planner;
    uint64_t largest_reduction;  // bytes; see Payload
    // See Payload::Add. Of none if there is no such.
    std::function<bool(pid_t process)> knows_taint = {};
    Unknowns* unknowns;
    // Operations take time; else they are over when their last rank comes.
    bool timed = true;
    // See NcclWorld::Options. Only if it is timed.
    NetworkEvents* events = nullptr;
    // See NcclWorld::Options.
    std::function<void(const std::string&)> failed;
    std::function<void(const NcclWorld::Options::Ended&)> ended = {};
    // The program has its own NCCL.
    struct Native {
      bool chosen = false;   // libnccl.so.2 is the program's own; else NCCL may be linked into it
      int architecture = 0;  // of the GPUs; 90 for sm_90
      std::function<std::optional<GpuPlace>(pid_t process, int gpu)> place;
    };
    std::optional<Native> native = {};
  };
  explicit NcclRuntime(const Options& options);

  NcclWorld& world() { return world_; }
  // What was prepared under this number and has not started; no communicator if there is none.
  struct Pending {
    const Communicator* communicator = nullptr;
    int rank = 0;  // of the caller in it
    absl::Span<const nccl::Entry> entries;
  };
  Pending PendingOf(uint64_t id);
  uint64_t uncomputed_reductions() const { return payload_.uncomputed(); }
  // See NcclWorld.
  void Leave(NcclEndpoint& endpoint, bool abort);
  void ProcessDied(pid_t process);
  // What waits for other ranks, as in NcclWorld.
  std::string DescribeWaiting(VirtualTime since) const;

  size_t ParameterBytes(uint64_t fingerprint) const override;
  Prepared Prepare(pid_t process, const std::shared_ptr<GpuContext>& context,
                   absl::Span<const uint8_t> parameters) override;
  bool Knows(const std::string& symbol) const override;
  bool IsPriced(const std::string& symbol) const override { return IsEngineReduce(symbol); }
  Prepared PrepareKnown(pid_t process, int gpu, const std::shared_ptr<GpuContext>& context,
                        const std::string& symbol, absl::Span<const uint8_t> parameters,
                        VirtualSpan takes, double sms) override;
  void Start(uint64_t id, VirtualTime now) override;
  VirtualTime EndOf(uint64_t id) const override;
  const char* NameOf(uint64_t id) const override;
  void Forget(uint64_t id) override;
  VirtualTime Now() const override { return world_.now(); }
  VirtualTime NextEvent() override;
  void Advance(VirtualTime to) override { world_.Advance(to); }
  std::vector<pid_t> TakeChanged() override;

 private:
  struct Launch {
    pid_t process = 0;
    nccl::Handle handle = 0;
    uint64_t sequence = 0;
    std::vector<nccl::Entry> entries;
    std::shared_ptr<GpuContext> context;
    const char* name = "";
    NcclTicket ticket = 0;  // when it has started
    // Of the program's own NCCL, or of an engine: the communicator's number, instead of a handle;
    // it may be made when the launch has started already.
    uint64_t native = 0;
    std::vector<NcclGiven> given;
    std::optional<VirtualTime> started;
  };
  NcclEndpoint* EndpointOf(const Launch& launch);
  // If its communicator is made.
  void StartIfReady(Launch& launch);
  // Launches of communicators that have been made since they started.
  void StartWaiting();
  // An all-reduce of an engine's own.
  Prepared PrepareEngine(pid_t process, int gpu, const std::shared_ptr<GpuContext>& context,
                         const std::string& symbol, absl::Span<const uint8_t> parameters,
                         VirtualSpan takes, double sms);
  // A launch of the program's own NCCL cannot be followed: the run ends.
  Prepared CannotFollow(pid_t process, const std::string& symbol, const std::string& why);

  const Options options_;
  Payload payload_;
  NcclWorld world_;
  absl::flat_hash_map<uint64_t, size_t> markers_;  // bytes of parameters by fingerprint
  absl::flat_hash_map<uint64_t, Launch> launches_;
  uint64_t next_ = 1;
  std::optional<NativeLibraries> libraries_;
  NativeCommunicators natives_;
  EngineGroups engines_;
  // Entries of launches with more to come.
  std::map<std::pair<pid_t, nccl::Handle>, std::vector<nccl::Entry>> parts_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_NCCL_NCCL_RUNTIME_H_
