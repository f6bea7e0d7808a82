// What the recorded ranks of a run have in common: communicators, operations and kernels' names.
#ifndef PHANTORA_TOOLS_REPLAY_STEP_TABLES_H_
#define PHANTORA_TOOLS_REPLAY_STEP_TABLES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "fabric/library/wire.h"
#include "tools/replay/step_record.h"

namespace phantora {

// Bounded by StepRecord's limits: what comes from ranks is not trusted.
class StepTables {
 public:
  // What a rank is about to do.
  struct Described {
    StepRecord::Communicator communicator;  // told apart by its number
    int rank = 0;
    std::vector<nccl::Entry> entries;
  };
  // The communicator's index; nullopt: there are too many.
  std::optional<uint32_t> AddCommunicator(StepRecord::Communicator communicator);
  // Of a rank whose communicators are `own`, to which this one is added. nullopt as above.
  std::optional<int> AddOperation(Described described, std::vector<StepRecord::Member>& own);
  // kNoName: it has none, or there are too many.
  int AddName(absl::string_view name);
  // Is there room for one node (or wait) more of any rank?
  bool AddNode() { return nodes_ < most_nodes_ && ++nodes_ > 0; }
  void DropNodes(size_t nodes) { nodes_ -= nodes; }

  // For tests: all ranks together stop at so many nodes.
  void set_most_nodes(size_t most) { most_nodes_ = most; }

  std::vector<StepRecord::Communicator>& communicators() { return communicators_; }
  std::vector<StepRecord::Operation>& operations() { return operations_; }
  std::vector<std::string>& names() { return names_; }

 private:
  std::vector<StepRecord::Communicator> communicators_;
  std::vector<StepRecord::Operation> operations_;
  std::vector<std::string> names_;
  std::map<int, uint32_t> communicator_of_;  // by number
  std::map<std::pair<uint32_t, std::vector<StepRecord::Entry>>, int> operation_of_;
  absl::flat_hash_map<std::string, int> name_of_;
  size_t entries_ = 0, nodes_ = 0, most_nodes_ = StepRecord::kMostNodes;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_STEP_TABLES_H_
