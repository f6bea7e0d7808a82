#include "trap/rm/os_events.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/rm_classes.h"

namespace phantora {
namespace {

// Long enough for a waiter that shares its core with others to be scheduled.
constexpr VirtualSpan kPulse = VirtualSpan::Microseconds(2000);
constexpr uint32_t kIndexMask = 0xffff;
// libcuda makes about a dozen per context.
constexpr size_t kMostPerProcess = 4096;

// NV2080_ENGINE_TYPE_* -> NV2080_NOTIFIERS_* (cl2080_notification.h).
uint32_t NotifierOf(uint32_t engine) {
  if (engine >= abi::NV2080_ENGINE_TYPE_COPY0 && engine < abi::NV2080_ENGINE_TYPE_COPY0 + 10) {
    return abi::NV2080_NOTIFIERS_CE0 + (engine - abi::NV2080_ENGINE_TYPE_COPY0);
  }
  return abi::NV2080_NOTIFIERS_GRAPHICS;
}

}  // namespace

EventDescriptor::EventDescriptor() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
  read_end_ = UniqueFd(ends[0]);
  write_end_ = UniqueFd(ends[1]);
  struct stat status {};
  if (fstat(ends[1], &status) == 0) inode_ = status.st_ino;
}

void EventDescriptor::Raise() {
  const char byte = 1;
  // A full pipe is readable already.
  [[maybe_unused]] const ssize_t written = write(write_end_.get(), &byte, 1);
}

void EventDescriptor::Drain() {
  // No read end is kept, so that the write end can tell when the tracee has closed
  // its own; a pipe's other end can be opened through its name.
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", write_end_.get());
  const UniqueFd read_end(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  // Not for ever: a rank can open the other end and write.
  char bytes[4096];
  for (int i = 0; i < 16 && read(read_end.get(), bytes, sizeof bytes) == sizeof bytes; ++i) {
  }
}

std::shared_ptr<OsEvents::Registration> OsEvents::Register(
    int gpu, pid_t process, uint32_t notify_index, std::shared_ptr<EventDescriptor> descriptor) {
  auto& [registrations, polls_unseen] = of_processes_[process];
  std::erase_if(registrations, [](const auto& weak) { return weak.expired(); });
  if (registrations.size() >= kMostPerProcess) return nullptr;
  descriptor->polled_unseen |= polls_unseen;
  auto registration = std::make_shared<Registration>(
      Registration{gpu, process, notify_index, std::move(descriptor)});
  registrations.push_back(registration);
  return registration;
}

void OsEvents::ProcessDied(pid_t process) { of_processes_.erase(process); }

template <typename Predicate>
void OsEvents::RaiseIf(int gpu, pid_t process, Predicate matches) {
  const auto found = of_processes_.find(process);
  if (found == of_processes_.end()) return;
  const VirtualTime drain_at = time_->Now() + kPulse;
  for (const auto& weak : found->second.registrations) {
    auto registration = weak.lock();
    if (registration == nullptr || registration->gpu != gpu ||
        !matches(registration->notify_index)) {
      continue;
    }
    EventDescriptor& descriptor = *registration->descriptor;
    descriptor.drain_at = drain_at;
    descriptor.seen = false;
    if (descriptor.raised) continue;
    descriptor.raised = true;
    descriptor.Raise();
    raised_.push_back(registration->descriptor);
  }
}

void OsEvents::NonStall(int gpu, pid_t process, uint32_t engine) {
  const uint32_t notifier = NotifierOf(engine);
  RaiseIf(gpu, process, [notifier](uint32_t index) {
    return (index & abi::NV01_EVENT_NONSTALL_INTR) != 0 && (index & kIndexMask) == notifier;
  });
}

void OsEvents::ChannelError(int gpu, pid_t process) {
  // Whoever sleeps must look at its error notifiers; libcuda does when woken.
  RaiseIf(gpu, process,
          [](uint32_t index) { return (index & abi::NV01_EVENT_NONSTALL_INTR) != 0; });
}

bool OsEvents::Drain() {
  if (raised_.empty()) return false;
  const VirtualTime now = time_->Now();
  bool some_will_be = false;
  std::erase_if(raised_, [&](const std::weak_ptr<EventDescriptor>& raised) {
    auto descriptor = raised.lock();
    if (descriptor == nullptr) return true;
    // Whoever polls next is to see it, however long that takes him.
    if (polls_are_seen_ && !descriptor->seen && !descriptor->polled_unseen) return false;
    if (now < descriptor->drain_at) {
      some_will_be = true;
      return false;
    }
    descriptor->Drain();
    descriptor->raised = false;
    return true;
  });
  return some_will_be;
}

void OsEvents::Seen(ino_t pipe, bool left_to_kernel) {
  std::erase_if(raised_, [&](const std::weak_ptr<EventDescriptor>& raised) {
    auto descriptor = raised.lock();
    if (descriptor == nullptr) return true;
    if (descriptor->inode() != pipe) return false;
    if (left_to_kernel) {
      descriptor->seen = true;
      descriptor->drain_at = time_->Now() + kPulse;
      return false;
    }
    descriptor->Drain();
    descriptor->raised = false;
    return true;
  });
}

void OsEvents::PollsUnseen(pid_t process, ino_t pipe) {
  const auto found = of_processes_.find(process);
  if (found == of_processes_.end()) return;
  for (const auto& weak : found->second.registrations) {
    const auto registration = weak.lock();
    if (registration != nullptr && registration->descriptor->inode() == pipe) {
      registration->descriptor->polled_unseen = true;
    }
  }
}

void OsEvents::PollsUnseen(pid_t process) {
  OfProcess& all = of_processes_[process];
  all.polls_unseen = true;
  for (const auto& weak : all.registrations) {
    if (const auto registration = weak.lock()) registration->descriptor->polled_unseen = true;
  }
}

}  // namespace phantora
