// The axes along which a run's ranks are laid out: tensor, data, pipeline parallel and so on.
#ifndef PHANTORA_TOOLS_REPLAY_RANK_AXES_H_
#define PHANTORA_TOOLS_REPLAY_RANK_AXES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tools/replay/step_record.h"

namespace phantora {

struct RankAxis {
  std::string name;  // "dp"
  int size = 1;
  auto operator<=>(const RankAxis&) const = default;
};

// A rank's number is that of its coordinates in a mixed radix, the first axis fastest.
class RankAxes {
 public:
  RankAxes() = default;
  explicit RankAxes(std::vector<RankAxis> axes) : axes_(std::move(axes)) {}

  const std::vector<RankAxis>& all() const { return axes_; }
  int ranks() const;
  // Below size() of each.
  std::vector<int> CoordinatesOf(int rank) const;
  int RankOf(absl::Span<const int> coordinates) const;
  // -1: there is none.
  int Find(absl::string_view name) const;
  // "tp=2,dp=4".
  std::string Text() const;

 private:
  std::vector<RankAxis> axes_;
};

// The ranks (places in StepRecord::ranks) of each communicator, by their rank in it. Errors: some
// are not recorded.
absl::StatusOr<std::vector<std::vector<int>>> MembersOf(const StepRecord& record);

// Found from who has communicators with whom. Every communicator of more than two ranks, and every
// one of two that fits, has those that differ along some axes only. Names are guessed from what is
// done along an axis, which says nothing for sure:
//   pp     its ranks do different things
//   ep     all send to all
//   cp     ranks send to their neighbours
//   dp     of the others that with the fewest operations in the run
//   tp     the rest (tp2, tp3, ...)
// One along which nothing is done is called x.
// Errors: communicators that fit to no axes.
absl::StatusOr<RankAxes> FindAxes(const StepRecord& record);

// "tp=2,dp=4,pp=2", the first fastest: what somebody says they are. Errors: it says something else,
// or is of another number of ranks.
absl::StatusOr<RankAxes> ParseAxes(absl::string_view text, int ranks);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_RANK_AXES_H_
