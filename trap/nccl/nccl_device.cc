#include "trap/nccl/nccl_device.h"

#include <cerrno>
#include <vector>

namespace phantora {

template <typename Block>
int NcclDevice::Serve(CallContext& call, RemoteAddress argument,
                      int (NcclDevice::*serve)(CallContext&, Block&)) {
  auto block = call.memory().ReadObject<Block>(argument);
  if (!block) return -EFAULT;
  const int result = (this->*serve)(call, *block);
  if (result == 0 && !call.memory().WriteObject(argument, *block)) return -EFAULT;
  return result;
}

int NcclDevice::Ioctl(CallContext& call, uint32_t command, RemoteAddress argument) {
  switch (command) {
    case nccl::kJoin:
      return Serve(call, argument, &NcclDevice::Join);
    case nccl::kSplit:
      return Serve(call, argument, &NcclDevice::Split);
    case nccl::kShrink:
      return Serve(call, argument, &NcclDevice::Shrink);
    case nccl::kAsk:
      return Serve(call, argument, &NcclDevice::Ask);
    case nccl::kLeave:
      return Serve(call, argument, &NcclDevice::Leave);
    default:
      return -ENOTTY;
  }
}

NcclEndpoint* NcclDevice::Ready(const CallContext& call, nccl::Handle handle) {
  NcclEndpoint* endpoint =
      runtime_->world().communicators().Find(static_cast<uint64_t>(call.process()), handle);
  return endpoint == nullptr || endpoint->communicator == nullptr ? nullptr : endpoint;
}

int NcclDevice::Join(CallContext& call, nccl::Join& join) {
  const auto place = find_gpu_(join.gpu);
  if (!place) return -EPERM;
  if (join.ranks < 1 || join.ranks > Communicators::kMostRanks || join.rank < 0 ||
      join.rank >= join.ranks) {
    return -EINVAL;
  }
  join.handle =
      runtime_->world().communicators().Join({static_cast<uint64_t>(call.process()), *place}, join);
  return join.handle == 0 ? -ENOSPC : 0;
}

int NcclDevice::Split(CallContext& call, nccl::Split& split) {
  const NcclEndpoint* parent = Ready(call, split.parent);
  if (parent == nullptr) return -EBADF;
  split.handle = runtime_->world().communicators().Split(*parent, split);
  return split.handle == 0 ? -ENOSPC : 0;
}

int NcclDevice::Shrink(CallContext& call, nccl::Shrink& shrink) {
  NcclEndpoint* parent = Ready(call, shrink.parent);
  if (parent == nullptr) return -EBADF;
  if (shrink.excluded_count < 0 || shrink.excluded_count > parent->communicator->ranks()) {
    return -EINVAL;
  }
  std::vector<int32_t> excluded(static_cast<size_t>(shrink.excluded_count));
  if (!call.memory().Read(RemoteAddress{shrink.excluded}, excluded.data(),
                          excluded.size() * sizeof excluded[0])) {
    return -EFAULT;
  }
  for (const int32_t rank : excluded) {
    if (rank < 0 || rank >= parent->communicator->ranks() || rank == parent->rank) return -EINVAL;
  }
  shrink.handle = runtime_->world().communicators().Shrink(*parent, excluded, shrink.settings);
  if (shrink.handle == 0) return -ENOSPC;
  if (shrink.abort != 0) runtime_->world().GiveUp(*parent);
  return 0;
}

int NcclDevice::Ask(CallContext& call, nccl::Ask& ask) {
  const NcclEndpoint* endpoint =
      runtime_->world().communicators().Find(static_cast<uint64_t>(call.process()), ask.handle);
  if (endpoint == nullptr) return -EBADF;
  ask.state = endpoint->state;
  ask.ranks = endpoint->communicator == nullptr ? 0 : endpoint->communicator->ranks();
  ask.rank = endpoint->rank;
  ask.error = endpoint->error;
  ask.unfinished = endpoint->unfinished;
  std::fill(std::begin(ask.message), std::end(ask.message), '\0');
  endpoint->message.copy(ask.message, sizeof ask.message - 1);
  return 0;
}

int NcclDevice::Leave(CallContext& call, nccl::Leave& leave) {
  NcclEndpoint* endpoint =
      runtime_->world().communicators().Find(static_cast<uint64_t>(call.process()), leave.handle);
  if (endpoint == nullptr) return -EBADF;
  runtime_->Leave(*endpoint, leave.how == nccl::Leaving::kAbort);
  return 0;
}

}  // namespace phantora
