#include "trap/nccl/payload.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "fabric/collectives/nccl_operation.h"
#include "fabric/library/wire.h"
#include "trap/nccl/reduction.h"

namespace phantora {
namespace {

using nccl::Operation;

// Bytes that are reduced at a time; a multiple of every type's size.
constexpr uint64_t kPiece = 1 << 20;

// Does the rank get the result of a reduction?
bool Receives(const NcclShare& share) {
  return share.entry.operation != Operation::kReduce || share.rank == share.entry.peer;
}

}  // namespace

void Payload::Fault(const NcclShare& share, uint64_t address) {
  unknowns_->Count("memory that an NCCL operation needs but that is not mapped", address,
                   absl::StrFormat("rank %d, %s", share.rank, Describe(share.entry)));
}

void Payload::Copy(const NcclShare& to, uint64_t destination, const NcclShare& from,
                   uint64_t source, uint64_t bytes) {
  AddressSpace& space = MemoryOf(to);
  AddressSpace& source_space = MemoryOf(from);
  if (bytes == 0 || (&space == &source_space && destination == source)) return;
  // Each is checked for itself, to name the one whose fault it is.
  if (auto fault = source_space.Check(source, bytes)) return Fault(from, *fault);
  if (auto fault = space.Check(destination, bytes)) return Fault(to, *fault);
  space.Copy(destination, source_space, source, bytes);
}

void Payload::Message(const NcclShare& send, const NcclShare& receive) {
  Copy(receive, receive.entry.receive, send, send.entry.send,
       send.entry.count * static_cast<uint64_t>(NcclTypeBytes(send.entry.type)));
}

void Payload::Collective(absl::Span<const NcclShare> shares) {
  const nccl::Entry& entry = shares[0].entry;
  const uint64_t bytes = entry.count * static_cast<uint64_t>(NcclTypeBytes(entry.type));
  switch (entry.operation) {
    case Operation::kBroadcast: {
      const NcclShare& root = shares[static_cast<size_t>(entry.peer)];
      for (const NcclShare& share : shares) {
        Copy(share, share.entry.receive, root, root.entry.send, bytes);
      }
      break;
    }
    case Operation::kAllGather:
      AllGather(shares, bytes);
      break;
    case Operation::kReduce:
    case Operation::kReduceScatter:
    case Operation::kAllReduce:
      Reduce(shares, bytes);
      break;
    case Operation::kSend:
    case Operation::kReceive:
      break;
  }
}

void Payload::AllGather(absl::Span<const NcclShare> shares, uint64_t bytes) {
  for (const NcclShare& to : shares) {
    for (const NcclShare& from : shares) {
      Copy(to, to.entry.receive + static_cast<uint64_t>(from.rank) * bytes, from, from.entry.send,
           bytes);
    }
  }
}

bool Payload::AreZeros(absl::Span<const NcclShare> shares, uint64_t bytes) {
  for (const NcclShare& share : shares) {
    // A factor may be infinite, or no number.
    if (share.entry.reduction == nccl::kPreMulSum) return false;
    const MemoryObject::Run run = MemoryOf(share).RunAt(share.entry.send, bytes);
    if (!run.empty || run.length < bytes) return false;
  }
  return true;
}

bool Payload::AreReal(absl::Span<const NcclShare> shares, uint64_t bytes) {
  return std::all_of(
             shares.begin(), shares.end(),
             [this](const NcclShare& share) { return ranks_.at(share.ticket).knows_taint; }) &&
         !AreTainted(shares, 0, bytes);
}

bool Payload::AreTainted(absl::Span<const NcclShare> shares, uint64_t at, uint64_t bytes) {
  return std::any_of(shares.begin(), shares.end(), [&](const NcclShare& share) {
    return MemoryOf(share).IsTainted(share.entry.send + at, bytes);
  });
}

void Payload::Reduce(absl::Span<const NcclShare> shares, uint64_t bytes) {
  const nccl::Entry& entry = shares[0].entry;
  const bool scatters = entry.operation == Operation::kReduceScatter;
  const uint64_t input = scatters ? bytes * shares.size() : bytes;
  // Of what the rank receives, within the result.
  const auto offset = [&](const NcclShare& share) {
    return scatters ? static_cast<uint64_t>(share.rank) * bytes : 0;
  };
  if (AreZeros(shares, input)) {
    // Before any is written: they may reduce in place.
    const bool any = AreTainted(shares, 0, input);
    std::vector<bool> tainted;
    for (const NcclShare& share : shares) {
      tainted.push_back(any && (!scatters || AreTainted(shares, offset(share), bytes)));
    }
    for (size_t i = 0; i < shares.size(); ++i) {
      if (!Receives(shares[i])) continue;
      AddressSpace& memory = MemoryOf(shares[i]);
      const uint64_t to = shares[i].entry.receive;
      if (auto fault = memory.Zero(to, bytes)) {
        Fault(shares[i], *fault);
      } else if (tainted[i]) {
        memory.SetTaint(to, bytes, true);
      }
    }
    return;
  }
  if (input > largest_reduction_ && !AreReal(shares, input)) {
    ++uncomputed_;
    const NcclShare& first = shares[0];
    // The first last: it may reduce in place.
    for (size_t i = shares.size(); i-- > 0;) {
      if (!Receives(shares[i])) continue;
      const uint64_t to = shares[i].entry.receive;
      Copy(shares[i], to, first, first.entry.send + offset(shares[i]), bytes);
      MemoryOf(shares[i]).SetTaint(to, bytes, true);
    }
    return;
  }
  std::vector<NcclShare> receivers;  // as far as they can
  for (const NcclShare& share : shares) {
    if (auto fault = MemoryOf(share).Check(share.entry.send, input)) return Fault(share, *fault);
    if (!Receives(share)) continue;
    if (auto fault = MemoryOf(share).Check(share.entry.receive, bytes)) {
      Fault(share, *fault);
    } else {
      receivers.push_back(share);
    }
  }
  for (const NcclShare& share : shares) MemoryOf(share).Bring(share.entry.send, input);
  // In pieces: what is reduced may be as large as a GPU. A piece is read from all before it is
  // written, and nobody reads it again, so that ranks may reduce in place.
  for (uint64_t part = 0; part < input; part += bytes) {
    for (uint64_t at = part; at < part + bytes; at += kPiece) {
      if (!ReducePiece(shares, receivers, at, std::min(kPiece, part + bytes - at), part)) return;
    }
  }
}

bool Payload::ReducePiece(absl::Span<const NcclShare> shares, absl::Span<const NcclShare> receivers,
                          uint64_t at, uint64_t length, uint64_t part) {
  const nccl::Entry& entry = shares[0].entry;
  Reduction reduction(entry.type, entry.reduction, length);
  std::vector<uint8_t> contribution(length);
  const auto size = static_cast<uint64_t>(NcclTypeBytes(entry.type));
  const auto fails = [this](const NcclShare& share, const AddressSpace::Fault& fault) {
    if (fault) Fault(share, *fault);
    return fault.has_value();
  };
  for (const NcclShare& share : shares) {
    AddressSpace& memory = MemoryOf(share);
    if (fails(share, memory.Read(share.entry.send + at, contribution.data(), length))) return false;
    uint64_t scalar = share.entry.scalar;
    if (share.entry.scalar_on_device != 0) {
      const uint64_t address = std::exchange(scalar, 0);
      if (fails(share, memory.Read(address, &scalar, size))) return false;
    }
    reduction.Add(contribution, scalar);
  }
  const bool tainted = AreTainted(shares, at, length);
  const std::vector<uint8_t> result = reduction.Result(static_cast<int>(shares.size()));
  const bool scatters = entry.operation == Operation::kReduceScatter;
  const uint64_t bytes = entry.count * size;
  for (const NcclShare& share : receivers) {
    // Part r of a scattered result is rank r's.
    if (scatters && static_cast<uint64_t>(share.rank) * bytes != part) continue;
    const uint64_t to = share.entry.receive + (at - part);
    if (fails(share, MemoryOf(share).Write(to, result.data(), length))) return false;
    if (tainted) MemoryOf(share).SetTaint(to, length, true);
  }
  return true;
}

}  // namespace phantora
