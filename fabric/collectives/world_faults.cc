// NCCL operations on a network whose links fail and come back.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fabric/collectives/nccl_world.h"

namespace phantora {

void NcclWorld::ApplyNetworkEvent() {
  if (!options_.events->Apply()) return;
  ++routes_;
  options_.planner->Forget();
  std::vector<OperationId> under_way;
  for (const auto& [flow, id] : flows_) under_way.push_back(id);
  for (const auto& [id, stranded] : stranded_) under_way.push_back(id);
  std::sort(under_way.begin(), under_way.end());
  under_way.erase(std::unique(under_way.begin(), under_way.end()), under_way.end());
  for (const OperationId id : under_way) Reroute(id, now_);
}

bool NcclWorld::StandsStill(const Operation& operation) const {
  if (operation.flows.empty()) return true;
  return std::any_of(operation.flows.begin(), operation.flows.end(), [this](const Moving& moving) {
    return std::any_of(moving.uses.begin(), moving.uses.end(),
                       [this](const LinkUse& use) { return options_.events->IsDown(use.link); });
  });
}

void NcclWorld::Reroute(OperationId id, VirtualTime now) {
  auto it = operations_.find(id);
  if (it == operations_.end()) return;
  Operation& operation = it->second;
  if (operation.flows.empty()) return StartFlows(id, now);  // it could not begin
  if (!StandsStill(operation)) {
    stranded_.erase(id);
    return;
  }
  const Communicator* communicator = CommunicatorOf(operation);
  if (communicator == nullptr) return;  // nobody waits for it
  // The algorithm and the parts are the same: they depend on what the communicator is, not on the
  // network's state.
  MakePlan(operation, *communicator, true);
  if (!operation.plan->no_way.empty()) return Strand(id, now);
  stranded_.erase(id);
  ++rerouted_;
  // What is on its way by links that work stays there: connections keep their ways.
  for (const Moving& moving : std::exchange(operation.flows, {})) {
    const bool cut =
        std::any_of(moving.uses.begin(), moving.uses.end(),
                    [this](const LinkUse& use) { return options_.events->IsDown(use.link); });
    if (!cut) {
      operation.flows.push_back(moving);
      continue;
    }
    const double left = options_.network->LeftOf(moving.flow, now);
    options_.network->Cancel(moving.flow, now);
    flows_.erase(moving.flow);
    StartPart(id, operation, moving.part, left, now);
  }
  if (operation.flows.empty()) Complete(id, now);
}

void NcclWorld::Strand(OperationId id, VirtualTime now) {
  const Operation& operation = operations_.at(id);
  if (options_.events == nullptr) {
    options_.failed(absl::StrCat("NCCL: ", operation.plan->no_way));
    return;
  }
  stranded_.try_emplace(id, Stranded{now, now + operation.plan->patience});
}

void NcclWorld::GiveUpStranded(OperationId id) {
  const Stranded stranded = stranded_.extract(id).mapped();
  auto it = operations_.find(id);
  if (it == operations_.end()) return;
  const Operation& operation = it->second;
  const Communicator* communicator = CommunicatorOf(operation);
  // A link may have come back, of which switches do not know yet.
  if (communicator == nullptr || (!operation.flows.empty() && !StandsStill(operation))) return;
  options_.failed(DescribeStranded(*communicator, operation, stranded));
}

}  // namespace phantora
