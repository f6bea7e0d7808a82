#include "trap/time/waits/poll_wait.h"

#include <errno.h>
#include <sys/syscall.h>

#include <cstdint>
#include <utility>

#include "trap/time/waits/wait_arguments.h"

namespace phantora {

PollWait::PollWait(const CallArguments& call, const Present& present, Memory memory)
    : WatchedWait(call, std::move(memory)) {
  if (call.number() == SYS_ppoll) {
    set_mask(ReadMask(argument(3)));
    RelativeIfAny(present.now, argument(2));
  } else {
    RelativeMilliseconds(present.now, argument(2));
  }
  if (waits()) ReadEntries();
  ContinueIfOver(present.now);
}

void PollWait::ReadEntries() {
  const uint64_t count = static_cast<uint32_t>(argument(1));
  if (count > kMostDescriptors) return LeaveToKernel("more than 4096 descriptors");
  entries_.resize(count);
  if (!memory().Read(RemoteAddress{argument(0)}, entries_.data(), count * sizeof(pollfd))) {
    return Invalid(EFAULT);
  }
  for (const pollfd& entry : entries_) {
    if (entry.fd >= 0) AddWatch(entry.fd, static_cast<uint16_t>(entry.events));
  }
}

bool PollWait::CollectReady() {
  // A signalfd has no copy here: only the caller can look at it.
  if (watches().empty() || all_copies().size() != watches().size()) return true;
  std::vector<pollfd> polls;
  for (size_t i = 0; i < watches().size(); ++i) {
    polls.push_back({all_copies()[i].get(), static_cast<short>(watches()[i].events), 0});
  }
  if (poll(polls.data(), polls.size(), 0) <= 0) return false;
  ready_.clear();
  for (const pollfd& poll : polls) ready_.push_back(poll.revents);
  return true;
}

std::vector<int> PollWait::found_readable() const {
  std::vector<int> readable;
  if (ready_.size() != watches().size() || all_copies().size() != watches().size()) return readable;
  for (size_t i = 0; i < ready_.size(); ++i) {
    if ((ready_[i] & POLLIN) != 0) readable.push_back(all_copies()[i].get());
  }
  return readable;
}

bool PollWait::WriteResults(const std::vector<short>& revents) const {
  // Read again only to leave alone what others may have written meanwhile.
  std::vector<pollfd> entries(entries_.size());
  const RemoteAddress at{argument(0)};
  if (!memory().Read(at, entries.data(), entries.size() * sizeof(pollfd))) return false;
  for (size_t i = 0; i < entries.size(); ++i) entries[i].revents = revents[i];
  return memory().Write(at, entries.data(), entries.size() * sizeof(pollfd));
}

bool PollWait::AnswerReady(NotifyListener& listener) const {
  if (ready_.size() != watches().size() || ready_.empty()) return false;
  std::vector<short> revents(entries_.size());
  size_t watch = 0;
  int64_t count = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].fd < 0) continue;
    revents[i] = ready_[watch++];
    count += revents[i] != 0 ? 1 : 0;
  }
  if (!WriteResults(revents)) return false;
  listener.ReplyValue(id(), count);
  return true;
}

void PollWait::TimeOut(NotifyListener& listener, VirtualTime now) const {
  WriteRemaining(now, false);
  WriteResults(std::vector<short>(entries_.size()));
  listener.ReplyValue(id(), 0);
}

void PollWait::Ready(NotifyListener& listener, VirtualTime now) const {
  WriteRemaining(now, false);
  if (!AnswerReady(listener)) listener.ReplyContinue(id());
}

void PollWait::WriteRemaining(VirtualTime now, bool /*interrupted*/) const {
  if (arguments().number() != SYS_ppoll || argument(2) == 0) return;
  // Where it cannot be written, the kernel would not complain either.
  memory().WriteObject(RemoteAddress{argument(2)}, Remaining(deadline(), now));
}

}  // namespace phantora
