#include "trap/nccl/nccl_runtime.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "fabric/library/marker_cubins.h"
#include "profiles/kernels/code_fingerprint.h"
#include "profiles/kernels/cubin.h"

namespace phantora {
namespace {

// Entries of calls that a process has begun; a group of sends and receives with every rank has two
// for each.
constexpr size_t kMostEntriesOfCalls = 1 << 17;

const char* NameOfEntries(absl::Span<const nccl::Entry> entries) {
  switch (entries[0].operation) {
    case nccl::Operation::kBroadcast:
      return "NCCL Broadcast";
    case nccl::Operation::kReduce:
      return "NCCL Reduce";
    case nccl::Operation::kAllGather:
      return "NCCL AllGather";
    case nccl::Operation::kReduceScatter:
      return "NCCL ReduceScatter";
    case nccl::Operation::kAllReduce:
      return "NCCL AllReduce";
    case nccl::Operation::kSend:
    case nccl::Operation::kReceive:
      break;
  }
  return "NCCL SendRecv";
}

}  // namespace

NcclRuntime::NcclRuntime(const Options& options)
    : options_(options),
      payload_(options.largest_reduction, options.unknowns),
      world_({.network = options.network,
              .planner = options.planner,
              .payload = &payload_,
              .events = options.events,
              .failed = options.failed,
              .ended = options.ended}),
      natives_(&world_),
      engines_(&world_) {
  if (options.native) libraries_.emplace(options.native->architecture);
  for (const nccl::MarkerCubin& cubin : nccl::MarkerCubins()) {
    std::vector<CubinKernel> kernels;
    ReadCubin(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(cubin.image.data()),
                                  cubin.image.size()),
              kernels);
    for (const CubinKernel& kernel : kernels) {
      if (kernel.code.size() < kPrefixBytes) continue;
      markers_[PrefixFingerprint(kernel.code)] =
          kernel.name == nccl::kMarkerKernel ? sizeof(nccl::Marker) : sizeof(nccl::LongMarker);
    }
  }
}

void NcclRuntime::Leave(NcclEndpoint& endpoint, bool abort) {
  parts_.erase({static_cast<pid_t>(endpoint.caller.process), endpoint.handle});
  world_.Leave(endpoint, abort);
}

void NcclRuntime::ProcessDied(pid_t process) {
  world_.ProcessDied(static_cast<uint64_t>(process));
  std::erase_if(parts_, [process](const auto& part) { return part.first.first == process; });
  natives_.ProcessDied(process);
  engines_.ProcessDied(process);
  if (libraries_) libraries_->ProcessDied(process);
}

std::string NcclRuntime::DescribeWaiting(VirtualTime since) const {
  return world_.DescribeWaiting(since) + natives_.DescribeWaiting() + engines_.DescribeWaiting();
}

NcclEndpoint* NcclRuntime::EndpointOf(const Launch& launch) {
  if ((launch.native & EngineGroups::kBit) != 0) return engines_.Find(launch.native);
  return launch.native != 0
             ? natives_.Find(launch.native)
             : world_.communicators().Find(static_cast<uint64_t>(launch.process), launch.handle);
}

NcclRuntime::Pending NcclRuntime::PendingOf(uint64_t id) {
  const auto it = launches_.find(id);
  if (it == launches_.end() || it->second.ticket != 0) return {};
  const Launch& launch = it->second;
  const NcclEndpoint* endpoint = EndpointOf(launch);
  if (endpoint == nullptr) return {};
  return {endpoint->communicator, endpoint->rank, launch.entries};
}

size_t NcclRuntime::ParameterBytes(uint64_t fingerprint) const {
  auto it = markers_.find(fingerprint);
  return it == markers_.end() ? 0 : it->second;
}

SharedWork::Prepared NcclRuntime::Prepare(pid_t process, const std::shared_ptr<GpuContext>& context,
                                          absl::Span<const uint8_t> parameters) {
  nccl::MarkerHeader header;
  if (parameters.size() < sizeof header) return {.error = "an NCCL operation that is none"};
  std::memcpy(&header, parameters.data(), sizeof header);
  const size_t most = (parameters.size() - sizeof header) / sizeof(nccl::Entry);
  if (header.magic != nccl::MarkerHeader().magic || header.entries > most) {
    return {.error = "an NCCL operation that is none"};
  }
  // The communicator may have been left before its operations had their turn.
  const NcclEndpoint* endpoint =
      world_.communicators().Find(static_cast<uint64_t>(process), header.handle);
  if (endpoint == nullptr) return {};
  auto& parts = parts_[{process, header.handle}];
  const size_t before = parts.size();
  if (header.entries > 0) {
    parts.resize(before + header.entries);
    std::memcpy(parts.data() + before, parameters.data() + sizeof header,
                header.entries * sizeof(nccl::Entry));
  }
  if (header.more != 0) {
    // A process may begin as many calls as it has communicators, and end none.
    size_t begun = 0;
    for (auto it = parts_.lower_bound({process, 0});
         it != parts_.end() && it->first.first == process; ++it) {
      begun += it->second.size();
    }
    if (begun > kMostEntriesOfCalls) return {.error = "too many parts of NCCL operations"};
    return {};
  }
  Launch launch;
  launch.entries = std::move(parts);
  parts_.erase({process, header.handle});
  if (launch.entries.empty()) return {};
  if (const std::string wrong = NcclWorld::Check(*endpoint, launch.entries); !wrong.empty()) {
    options_.unknowns->Count("NCCL operation that makes no sense", header.handle, wrong);
    return {.error = "an NCCL operation that makes no sense"};
  }
  const auto occupancy = world_.OccupancyOf(*endpoint, launch.entries);
  launch.process = process;
  launch.handle = header.handle;
  launch.sequence = header.sequence;
  launch.context = context;
  launch.name = NameOfEntries(launch.entries);
  const uint64_t id = next_++;
  launches_[id] = std::move(launch);
  return {.id = id,
          .sms = static_cast<double>(occupancy.sms),
          .memory_share = options_.timed ? occupancy.memory_share : 0};
}

bool NcclRuntime::Knows(const std::string& symbol) const {
  return libraries_ && (IsNcclKernel(symbol) || IsEngineReduce(symbol));
}

SharedWork::Prepared NcclRuntime::CannotFollow(pid_t process, const std::string& symbol,
                                               const std::string& why) {
  options_.unknowns->Count("NCCL launch that cannot be decoded", static_cast<uint64_t>(process),
                           absl::StrCat(symbol, ": ", why));
  options_.failed(absl::StrCat("NCCL: process ", process, " launches ", symbol,
                               " of its own NCCL, which cannot be followed: ", why,
                               options_.native->chosen
                                   ? ".\nWithout --nccl native, phantora-run puts an NCCL in its "
                                     "place that always can."
                                   : ".\nThe program has NCCL linked into it, so that phantora-run "
                                     "cannot put another in its place."));
  return {.error = "an NCCL launch that cannot be followed"};
}

SharedWork::Prepared NcclRuntime::PrepareEngine(pid_t process, int gpu,
                                                const std::shared_ptr<GpuContext>& context,
                                                const std::string& symbol,
                                                absl::Span<const uint8_t> parameters,
                                                VirtualSpan takes, double sms) {
  std::string why = "its GPU is not known";
  const auto place = options_.native->place(process, gpu);
  AddressSpace& memory = context->memory;
  const auto decoded =
      DecodeEngineReduce(symbol, parameters, [&memory](uint64_t address, void* to, uint64_t bytes) {
        return !memory.Read(address, to, bytes);
      });
  if (!decoded.ok()) why = std::string(decoded.status().message());
  uint64_t number = 0;
  if (place && decoded.ok()) number = engines_.Of({process, *place, context}, *decoded, why);
  if (number == 0) {
    options_.unknowns->Count("all-reduce of an engine's own that cannot be followed",
                             static_cast<uint64_t>(process),
                             absl::StrCat("it waits for nobody: ", symbol, ": ", why));
    return {.alone = true};
  }
  StartWaiting();
  Launch launch;
  launch.entries = {decoded->entry};
  // At least as long as anything takes: 0 would be NCCL's to say.
  launch.given = {{.takes = std::max(takes, VirtualSpan::Picoseconds(1))}};
  launch.process = process;
  launch.native = number;
  launch.sequence = engines_.CountCall(number);
  launch.context = context;
  launch.name = nullptr;  // the kernel's
  const uint64_t id = next_++;
  launches_[id] = std::move(launch);
  return {.id = id, .sms = sms};
}

SharedWork::Prepared NcclRuntime::PrepareKnown(pid_t process, int gpu,
                                               const std::shared_ptr<GpuContext>& context,
                                               const std::string& symbol,
                                               absl::Span<const uint8_t> parameters,
                                               VirtualSpan takes, double sms) {
  if (IsEngineReduce(symbol)) {
    return PrepareEngine(process, gpu, context, symbol, parameters, takes, sms);
  }
  std::string why;
  const auto place = options_.native->place(process, gpu);
  if (!place) return CannotFollow(process, symbol, "its GPU is not known");
  const auto library = libraries_->Of(process, why);
  if (library == nullptr) return CannotFollow(process, symbol, why);
  AddressSpace& memory = context->memory;
  auto decoded = DecodeNativeLaunch(*library, symbol, parameters,
                                    [&memory](uint64_t address, void* to, uint64_t bytes) {
                                      return !memory.Read(address, to, bytes);
                                    });
  if (!decoded.ok()) {
    return CannotFollow(process, symbol, std::string(decoded.status().message()));
  }
  const uint64_t native =
      natives_.Of({process, *place, context}, *decoded, *FindNativeLayout(library->version), why);
  if (native == 0) return CannotFollow(process, symbol, why);
  for (const NativeLaunch::Store& store : decoded->stores) {
    if (memory.Write(store.address, &store.value, sizeof store.value)) {
      return CannotFollow(process, symbol, "where it tells what it has read is not mapped");
    }
  }
  StartWaiting();
  if (decoded->operations.empty()) return {};
  Launch launch;
  for (const NativeOperation& operation : decoded->operations) {
    launch.entries.push_back(operation.entry);
    const bool message = operation.entry.operation == nccl::Operation::kSend ||
                         operation.entry.operation == nccl::Operation::kReceive;
    if (!message) launch.given.push_back(operation.given);
  }
  if (const std::string wrong = NcclWorld::Check(decoded->ranks, launch.entries); !wrong.empty()) {
    return CannotFollow(process, symbol, wrong);
  }
  launch.process = process;
  launch.native = native;
  launch.sequence = natives_.CountCall(native);
  launch.context = context;
  launch.name = NameOfEntries(launch.entries);
  const NcclEndpoint* endpoint = natives_.Find(native);
  const double memory_share =
      !options_.timed || endpoint == nullptr
          ? 0
          : world_.OccupancyOf(*endpoint, launch.entries, launch.given).memory_share;
  const uint64_t id = next_++;
  launches_[id] = std::move(launch);
  // A block for each channel, which fills an SM.
  return {.id = id,
          .sms = static_cast<double>(std::popcount(decoded->channel_mask)),
          .memory_share = memory_share};
}

void NcclRuntime::Start(uint64_t id, VirtualTime now) {
  Launch& launch = launches_.at(id);
  launch.started = now;
  StartIfReady(launch);
}

void NcclRuntime::StartIfReady(Launch& launch) {
  NcclEndpoint* endpoint = EndpointOf(launch);
  if (endpoint == nullptr) return;
  launch.ticket =
      world_.Start(*endpoint, std::move(launch.entries), launch.sequence,
                   options_.timed ? *launch.started : world_.now(), std::move(launch.given));
  payload_.Add(launch.ticket, launch.context,
               options_.knows_taint != nullptr && options_.knows_taint(launch.process));
  if (!options_.timed) world_.Advance(VirtualTime::Infinity());
}

void NcclRuntime::StartWaiting() {
  std::vector<uint64_t> made = natives_.TakeMade();
  const std::vector<uint64_t> of_engines = engines_.TakeMade();
  made.insert(made.end(), of_engines.begin(), of_engines.end());
  if (made.empty()) return;
  std::vector<uint64_t> waiting;
  for (const auto& [id, launch] : launches_) {
    if (launch.started && launch.ticket == 0 &&
        std::find(made.begin(), made.end(), launch.native) != made.end()) {
      waiting.push_back(id);
    }
  }
  std::sort(waiting.begin(), waiting.end());
  for (const uint64_t id : waiting) StartIfReady(launches_.at(id));
}

VirtualTime NcclRuntime::EndOf(uint64_t id) const {
  const Launch& launch = launches_.at(id);
  if (launch.ticket == 0) {
    const bool is_engine = (launch.native & EngineGroups::kBit) != 0;
    const bool awaits = is_engine ? engines_.Awaits(launch.native) : natives_.Awaits(launch.native);
    return awaits ? VirtualTime::Infinity() : VirtualTime();
  }
  const VirtualTime end = world_.EndOf(launch.ticket);
  return options_.timed || end == VirtualTime::Infinity() ? end : VirtualTime();
}

const char* NcclRuntime::NameOf(uint64_t id) const { return launches_.at(id).name; }

void NcclRuntime::Forget(uint64_t id) {
  auto it = launches_.find(id);
  if (it == launches_.end()) return;
  if (it->second.ticket != 0) {
    world_.Forget(it->second.ticket);
    payload_.Remove(it->second.ticket);
  }
  launches_.erase(it);
}

VirtualTime NcclRuntime::NextEvent() {
  return options_.timed ? world_.NextEvent() : VirtualTime::Infinity();
}

std::vector<pid_t> NcclRuntime::TakeChanged() {
  std::vector<pid_t> processes;
  for (const uint64_t process : world_.TakeChanged()) {
    processes.push_back(static_cast<pid_t>(process));
  }
  return processes;
}

}  // namespace phantora
