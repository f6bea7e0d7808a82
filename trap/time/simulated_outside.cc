// SimulatedTime's questions to the world outside of the run.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <optional>

#include "trap/linux/descriptor_copy.h"
#include "trap/time/simulated_time.h"

namespace phantora {

namespace {

// That sendmmsg sends at a time (UIO_MAXIOV).
constexpr uint64_t kMostMessages = 1024;

}  // namespace

void SimulatedTime::Connects(const TrappedCall& call) {
  sockaddr_storage peer{};
  const uint64_t length = std::min<uint64_t>(static_cast<uint32_t>(call.Word(2)), sizeof peer);
  if (!call.memory().Read(call.Address(1), &peer, length)) return;
  if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) return;
  const DescriptorCopy file = DescriptorCopy::Of(call.tracee().pidfd.get(), call.Int(0));
  struct stat status {};
  int type = 0;
  socklen_t size = sizeof type;
  if (!file.valid() || getsockopt(file.get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0) return;
  if (type != SOCK_STREAM || fstat(file.get(), &status) != 0) return;
  if (!OutsidePeers::IsElsewhere(peer)) return;
  const bool blocks = (fcntl(file.get(), F_GETFL) & O_NONBLOCK) == 0;
  outside_.Connects(status.st_ino, call.process(), call.thread(), blocks);
}

void SimulatedTime::AskOutside(const CallArguments& call, const RemoteMemory& memory, int file) {
  std::optional<sockaddr_storage> to;
  if (call.number() == SYS_sendto && call.Word(4) != 0) {
    to.emplace();
    const uint64_t length = std::min<uint64_t>(static_cast<uint32_t>(call.Word(5)), sizeof *to);
    if (!memory.Read(call.Address(4), &*to, length)) return;
  }
  struct stat status {};
  int type = 0;
  socklen_t size = sizeof type;
  if (getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return;
  const bool stream = type == SOCK_STREAM;
  if (!peers_.IsOutside(file, to && !stream ? &*to : nullptr)) return;
  if (fstat(file, &status) != 0) return;
  const bool several = call.number() == SYS_sendmmsg;
  const uint64_t messages = several ? static_cast<uint32_t>(call.Word(2)) : 1;
  outside_.Asked(status.st_ino, std::clamp<uint64_t>(messages, 1, kMostMessages), stream);
}

void SimulatedTime::HearOutside(int file, bool stream) {
  struct stat status {};
  if (outside_.empty() || fstat(file, &status) != 0) return;
  outside_.Answered(status.st_ino, stream);
}

bool SimulatedTime::WaitsForOutside() {
  if (outside_.empty()) return false;
  const auto waits = [this](const auto& entry) {
    const HeldCall& held = entry.second;
    const int64_t patience = held.deadline == VirtualTime::Infinity()
                                 ? OutsideAnswers::kLongestNs
                                 : held.deadline.nanoseconds() - held.since.nanoseconds();
    return !held.asked.empty() && outside_.Awaited(held.asked, held.real_since, patience);
  };
  const uint64_t given_up = outside_.given_up();
  const bool any = outside_.AnyConnects() || std::any_of(held_.begin(), held_.end(), waits);
  if (outside_.given_up() > given_up) {
    options_.unknowns->Count("silence of a machine or service outside", 0,
                             "nobody answered for 30 s of real time, so simulated time passes");
  }
  return any;
}

}  // namespace phantora
