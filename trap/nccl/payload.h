// What NCCL's operations do to the memory of GPUs.
#ifndef PHANTORA_TRAP_NCCL_PAYLOAD_H_
#define PHANTORA_TRAP_NCCL_PAYLOAD_H_

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "fabric/collectives/nccl_world.h"
#include "trap/gpu/front/gpu_context.h"
#include "trap/unknowns.h"

namespace phantora {

// Copies are carried out. Reductions of at most `largest_reduction` bytes (of a rank's
// contribution) are too, and those of which every contribution is real; of other ones the result is
// what rank 0 contributed, which is counted. Taint goes with copies, and from each contribution to
// the result.
// Memory that was never written stays so, and costs nothing.
class Payload : public PayloadMover {
 public:
  Payload(uint64_t largest_reduction, Unknowns* unknowns)
      : largest_reduction_(largest_reduction), unknowns_(unknowns) {}

  // Where the addresses of a ticket mean something. `knows_taint`: what is not tainted there is
  // what the program's kernels have made (uvm_model/byte_set.h).
  void Add(NcclTicket ticket, std::shared_ptr<GpuContext> context, bool knows_taint = false) {
    ranks_[ticket] = {std::move(context), knows_taint};
  }
  void Remove(NcclTicket ticket) { ranks_.erase(ticket); }

  // Reductions that were not computed.
  uint64_t uncomputed() const { return uncomputed_; }

  void Collective(absl::Span<const NcclShare> shares) override;
  void Message(const NcclShare& send, const NcclShare& receive) override;

 private:
  AddressSpace& MemoryOf(const NcclShare& share) { return ranks_.at(share.ticket).context->memory; }
  void Copy(const NcclShare& to, uint64_t destination, const NcclShare& from, uint64_t source,
            uint64_t bytes);
  void AllGather(absl::Span<const NcclShare> shares, uint64_t bytes);
  void Reduce(absl::Span<const NcclShare> shares, uint64_t bytes);
  // Is every rank's contribution, of `bytes`, known to be zeros that any reduction leaves zeros?
  bool AreZeros(absl::Span<const NcclShare> shares, uint64_t bytes);
  bool AreReal(absl::Span<const NcclShare> shares, uint64_t bytes);
  bool AreTainted(absl::Span<const NcclShare> shares, uint64_t at, uint64_t bytes);
  // `length` bytes at `at` of every rank's input, which belong to the part of it that begins at
  // `part`. False if memory was not there.
  bool ReducePiece(absl::Span<const NcclShare> shares, absl::Span<const NcclShare> receivers,
                   uint64_t at, uint64_t length, uint64_t part);
  // Some memory was not there: the program's mistake.
  void Fault(const NcclShare& share, uint64_t address);

  const uint64_t largest_reduction_;
  Unknowns* const unknowns_;
  uint64_t uncomputed_ = 0;
  struct Rank {
    std::shared_ptr<GpuContext> context;
    bool knows_taint = false;
  };
  absl::flat_hash_map<NcclTicket, Rank> ranks_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_NCCL_PAYLOAD_H_
