// The ranks of a larger run like a recorded one: which recorded rank each does the same as, and who
// has communicators with whom.
#ifndef PHANTORA_TOOLS_REPLAY_SCALED_RANKS_H_
#define PHANTORA_TOOLS_REPLAY_SCALED_RANKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "fabric/cluster/gpu_place.h"
#include "fabric/library/wire.h"
#include "tools/replay/rank_axes.h"
#include "tools/replay/step_record.h"

namespace phantora {

// Only axes along which ranks do the same can become longer, and only where more ranks do not
// change what each computes: data parallel ones, by their name (dp, dp2, ...). Along them
//   - a communicator has all ranks, or one; then there are as many such communicators as ranks;
//   - what is gathered and reduced in all has the size that it had, and ranks' parts are smaller;
//   - a rank that sends does so to ranks at its own place.
// The first rank along such an axis may do something else than the others (it writes what a run
// prints), which then do all the same.
class ScaledRanks {
 public:
  struct Communicator {
    int number = 0;  // of its own
    nccl::Settings settings;
    std::vector<int> members;  // ranks, by rank in it
    uint32_t recorded = 0;
    std::vector<bool> spans;  // the axes along which it has all ranks
  };
  struct Rank {
    GpuPlace place;
    int recorded = 0;                               // which it does the same as
    std::vector<StepRecord::Member> communicators;  // as StepRecord::Rank's
  };

  // `to`: the axes that are to have another size, and which. Ranks fill hosts one after the other,
  // `gpus` each (0: as many as in the record), unless all is as it was. `fitted`: the record has
  // the sizes of that many ranks already (FitSizes). `record` must outlive it. Errors: see above,
  // in words.
  static absl::StatusOr<ScaledRanks> Create(const StepRecord& record, const RankAxes& axes,
                                            const std::map<std::string, int>& to, int gpus = 0,
                                            bool fitted = false);

  const std::vector<Rank>& ranks() const { return ranks_; }
  const std::vector<Communicator>& communicators() const { return communicators_; }
  const RankAxes& axes() const { return axes_; }
  int gpus() const { return gpus_; }
  // By how much there are more ranks than were recorded.
  double factor() const;

  // What `rank` does in an operation of the record, without addresses.
  std::vector<nccl::Entry> EntriesOf(int rank, int operation) const;

 private:
  ScaledRanks(const StepRecord* record, RankAxes recorded, RankAxes axes, int gpus, bool fitted)
      : record_(record),
        gpus_(gpus > 0 ? gpus : record->gpus),
        fitted_(fitted),
        recorded_(std::move(recorded)),
        axes_(std::move(axes)) {}
  absl::Status CheckAxis(size_t axis) const;
  absl::Status CheckCommunicators(const std::vector<std::vector<int>>& members) const;
  absl::Status CheckMessages(const std::vector<std::vector<int>>& members) const;
  void Build(const std::vector<std::vector<int>>& members);
  bool IsScaled(size_t axis) const { return axes_.all()[axis].size != recorded_.all()[axis].size; }
  // Of a rank of this run, the recorded one that it does the same as.
  int RecordedOf(int rank) const;
  // The rank in `communicator` of the one that the recorded rank `peer` is for `rank`.
  int PeerOf(int rank, const Communicator& communicator, int peer) const;
  // And of the recorded rank `root`, the same for all ranks.
  int RootOf(const Communicator& communicator, int root) const;
  int IndexOf(const Communicator& communicator, absl::Span<const int> coordinates) const;

  const StepRecord* record_;
  int gpus_;  // ranks of a host
  bool fitted_;
  RankAxes recorded_, axes_;
  std::vector<Rank> ranks_;
  std::vector<Communicator> communicators_;
  std::vector<std::vector<int>> members_;  // of recorded communicators
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_SCALED_RANKS_H_
