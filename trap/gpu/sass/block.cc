#include "trap/gpu/sass/block.h"

#include <algorithm>
#include <utility>

namespace phantora::sass {
namespace {

// Nobody in a cluster has done anything else than to look so many times: nobody ever will. They may
// count their looks, and go on.
constexpr uint32_t kMostLooks = 1 << 12;

}  // namespace

void Block::Start(LaunchState& launch, Dims index, ClusterState& cluster) {
  state_.index = index;
  state_.cluster = &cluster;
  state_.rank = static_cast<uint32_t>(cluster.blocks.size());
  cluster.blocks.push_back(&state_);
  state_.shared.assign(launch.shared_bytes, 0);
  state_.barriers = {};
  state_.warpgroups = {};
  const uint64_t threads = launch.block.count();
  state_.living = static_cast<uint32_t>(threads);
  const size_t count = (threads + kLanes - 1) / kLanes;
  state_.warps = static_cast<uint32_t>(count);
  while (all_.size() < count) all_.push_back(std::make_unique<Warp>());
  warps_.clear();
  for (size_t i = 0; i < count; ++i) {
    all_[i]->Start(launch, state_, static_cast<uint32_t>(i));
    warps_.push_back(all_[i].get());
  }
  states_.assign(count, WarpState::kPaused);
}

void Block::End() {
  for (Warp* warp : warps_) warp->End();
}

WarpState Block::Run(const Program& program, uint64_t most, Stop& stop) {
  LaunchState& of = launch();
  const uint64_t end = of.clock + most;
  for (;;) {
    bool any = false, any_works = false, all_exited = true;
    const uint64_t events = of.events;
    for (size_t i = 0; i < warps_.size(); ++i) {
      if (states_[i] == WarpState::kPaused || states_[i] == WarpState::kLooking) {
        any = true;
        // A part of its turn: others of its block may be what it waits for.
        states_[i] = RunWarp(*warps_[i], program, std::max<uint64_t>(most / 8, 1));
        if (states_[i] == WarpState::kStopped) {
          stop = warps_[i]->stop;
          return WarpState::kStopped;
        }
        any_works |= states_[i] != WarpState::kLooking;
      }
      all_exited &= states_[i] == WarpState::kExited;
    }
    if (all_exited) return WarpState::kExited;
    if (ReleaseBarriers(warps_, state_)) {
      any_works = true;
      for (WarpState& state : states_) {
        if (state == WarpState::kWaiting) state = WarpState::kPaused;
      }
    } else if (!any) {
      stop = {.reason = Stop::Reason::kDeadlock, .instruction = FirstWaiting()};
      return WarpState::kStopped;
    }
    if (!any_works && events == of.events) return WarpState::kLooking;
    if (of.clock >= end) return WarpState::kPaused;
  }
}

uint32_t Block::FirstWaiting() const {
  for (const Warp* warp : warps_) {
    if (!warp->paths.empty()) return warp->paths.front().pc;
  }
  return 0;
}

Cluster::Cluster(LaunchState& launch, uint64_t number, std::vector<std::unique_ptr<Block>>& idle) {
  const Dims& size = launch.cluster;
  const uint64_t across = launch.grid.x / size.x, down = launch.grid.y / size.y;
  const Dims first = {static_cast<uint32_t>(number % across) * size.x,
                      static_cast<uint32_t>(number / across % down) * size.y,
                      static_cast<uint32_t>(number / across / down) * size.z};
  for (uint32_t rank = 0; rank < size.count(); ++rank) {
    std::unique_ptr<Block> block;
    if (idle.empty()) {
      block = std::make_unique<Block>();
    } else {
      block = std::move(idle.back());
      idle.pop_back();
    }
    block->Start(launch,
                 {first.x + rank % size.x, first.y + rank / size.x % size.y,
                  first.z + rank / size.x / size.y},
                 state_);
    members_.push_back({.block = std::move(block)});
  }
}

void Cluster::End(std::vector<std::unique_ptr<Block>>& idle, size_t most) {
  for (Member& member : members_) {
    member.block->End();
    if (idle.size() < most) idle.push_back(std::move(member.block));
  }
  members_.clear();
}

WarpState Cluster::Run(const Program& program, uint64_t most, Stop& stop) {
  LaunchState& launch = members_.front().block->launch();
  const uint64_t end = launch.clock + most;
  for (;;) {
    bool all_exited = true, all_look = true;
    const uint64_t events = launch.events;
    for (Member& member : members_) {
      if (member.now == WarpState::kExited) continue;
      member.now = member.block->Run(program, std::max<uint64_t>(most / members_.size(), 1), stop);
      if (member.now == WarpState::kStopped) return WarpState::kStopped;
      all_exited &= member.now == WarpState::kExited;
      all_look &= member.now == WarpState::kLooking;
    }
    if (all_exited) return WarpState::kExited;
    looks_ = all_look && events == launch.events ? looks_ + 1 : 0;
    if (looks_ == kMostLooks) {
      for (const Member& member : members_) {
        if (member.now == WarpState::kExited) continue;
        stop = {.reason = Stop::Reason::kDeadlock, .instruction = member.block->FirstWaiting()};
        return WarpState::kStopped;
      }
    }
    if (launch.clock >= end) return WarpState::kPaused;
  }
}

}  // namespace phantora::sass
