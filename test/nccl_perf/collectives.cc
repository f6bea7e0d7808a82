#include "test/nccl_perf/collectives.h"

#include <algorithm>

namespace phantora::nccl_perf {
namespace {

size_t One(size_t count, int) { return count; }
// Of operations in which a rank has a part for each: nccl-tests' size is that of all parts.
size_t Part(size_t count, int ranks) { return count / static_cast<size_t>(ranks); }
size_t Parts(size_t count, int ranks) { return Part(count, ranks) * static_cast<size_t>(ranks); }

double AllReduceFactor(int n) { return 2.0 * (n - 1) / n; }
double GatherFactor(int n) { return static_cast<double>(n - 1) / n; }
double NoFactor(int) { return 1; }

NcclResult AllToAll(const Nccl& nccl, const Call& call) {
  const size_t part = Part(call.count, call.ranks), bytes = part * kTypeBytes[call.type];
  nccl.GroupStart();
  for (int peer = 0; peer < call.ranks; ++peer) {
    const uint64_t offset = static_cast<uint64_t>(peer) * bytes;
    nccl.Send(call.send + offset, part, call.type, peer, call.communicator, call.stream);
    nccl.Receive(call.receive + offset, part, call.type, peer, call.communicator, call.stream);
  }
  return nccl.GroupEnd();
}

NcclResult SendReceive(const Nccl& nccl, const Call& call) {
  nccl.GroupStart();
  nccl.Send(call.send, call.count, call.type, (call.rank + 1) % call.ranks, call.communicator,
            call.stream);
  nccl.Receive(call.receive, call.count, call.type, (call.rank + call.ranks - 1) % call.ranks,
               call.communicator, call.stream);
  return nccl.GroupEnd();
}

const Collective kCollectives[] = {
    {"all_reduce", true, false, One, One, AllReduceFactor,
     [](const Nccl& nccl, const Call& call) {
       return nccl.AllReduce(call.send, call.receive, call.count, call.type, call.reduction,
                             call.communicator, call.stream);
     }},
    {"all_gather", false, false, Part, Parts, GatherFactor,
     [](const Nccl& nccl, const Call& call) {
       return nccl.AllGather(call.send, call.receive, Part(call.count, call.ranks), call.type,
                             call.communicator, call.stream);
     }},
    {"reduce_scatter", true, false, Parts, Part, GatherFactor,
     [](const Nccl& nccl, const Call& call) {
       return nccl.ReduceScatter(call.send, call.receive, Part(call.count, call.ranks), call.type,
                                 call.reduction, call.communicator, call.stream);
     }},
    {"alltoall", false, false, Parts, Parts, GatherFactor, AllToAll},
    {"sendrecv", false, false, One, One, NoFactor, SendReceive},
    {"broadcast", false, true, One, One, NoFactor,
     [](const Nccl& nccl, const Call& call) {
       return nccl.Broadcast(call.send, call.receive, call.count, call.type, call.root,
                             call.communicator, call.stream);
     }},
    {"reduce", true, true, One, One, NoFactor,
     [](const Nccl& nccl, const Call& call) {
       return nccl.Reduce(call.send, call.receive, call.count, call.type, call.reduction, call.root,
                          call.communicator, call.stream);
     }},
};

// What the elements `index` of all ranks are reduced to.
double Reduced(int reduction, int ranks, size_t index) {
  double value = Sent(0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const double other = Sent(rank, index);
    switch (reduction) {
      case 1:
        value *= other;
        break;
      case 2:
        value = std::max(value, other);
        break;
      case 3:
        value = std::min(value, other);
        break;
      default:
        value += other;
        break;
    }
  }
  return reduction == 4 ? value / ranks : value;
}

}  // namespace

const Collective* FindCollective(const std::string& name) {
  for (const Collective& collective : kCollectives) {
    if (name == collective.name) return &collective;
  }
  return nullptr;
}

std::vector<std::string> CollectiveNames() {
  std::vector<std::string> names;
  for (const Collective& collective : kCollectives) names.push_back(collective.name);
  return names;
}

// Products stay small: of two ranks in three, one.
int Sent(int rank, size_t index) {
  return static_cast<int>((static_cast<size_t>(rank) + index) % 3 == 0 ? 1 + index % 2 : 1);
}

double Expected(const Collective& collective, int reduction, int rank, int ranks, size_t count,
                int root, size_t index) {
  const std::string name = collective.name;
  const size_t part = Part(count, ranks);
  if (name == "all_gather") return Sent(static_cast<int>(index / part), index % part);
  if (name == "reduce_scatter") {
    return Reduced(reduction, ranks, static_cast<size_t>(rank) * part + index);
  }
  if (name == "alltoall") {
    return Sent(static_cast<int>(index / part), static_cast<size_t>(rank) * part + index % part);
  }
  if (name == "sendrecv") return Sent((rank + ranks - 1) % ranks, index);
  if (name == "broadcast") return Sent(root, index);
  return Reduced(reduction, ranks, index);
}

}  // namespace phantora::nccl_perf
