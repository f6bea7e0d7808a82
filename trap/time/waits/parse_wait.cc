#include "trap/time/waits/parse_wait.h"

#include <sys/syscall.h>

#include <utility>

#include "trap/time/waits/epoll_wait.h"
#include "trap/time/waits/futex_wait.h"
#include "trap/time/waits/poll_wait.h"
#include "trap/time/waits/queue_wait.h"
#include "trap/time/waits/select_wait.h"
#include "trap/time/waits/semaphore_wait.h"
#include "trap/time/waits/signal_wait.h"
#include "trap/time/waits/sleep_wait.h"

namespace phantora {
namespace {

using Maker = std::unique_ptr<TimedWait> (*)(const CallArguments&, const TimedWait::Present&,
                                             TimedWait::Memory);

template <typename Wait>
std::unique_ptr<TimedWait> Make(const CallArguments& call, const TimedWait::Present& present,
                                TimedWait::Memory memory) {
  return std::make_unique<Wait>(call, present, std::move(memory));
}

constexpr struct {
  int call;
  Maker make;
} kWaits[] = {
    {SYS_nanosleep, Make<SleepWait>},
    {SYS_clock_nanosleep, Make<SleepWait>},
    {SYS_poll, Make<PollWait>},
    {SYS_ppoll, Make<PollWait>},
    {SYS_select, Make<SelectWait>},
    {SYS_pselect6, Make<SelectWait>},
    {SYS_epoll_wait, Make<EpollWait>},
    {SYS_epoll_pwait, Make<EpollWait>},
    {SYS_epoll_pwait2, Make<EpollWait>},
    {SYS_futex, Make<FutexWait>},
    {SYS_futex_waitv, Make<FutexWait>},
    {SYS_rt_sigtimedwait, Make<SignalWait>},
    {SYS_mq_timedsend, Make<QueueWait>},
    {SYS_mq_timedreceive, Make<QueueWait>},
    {SYS_semtimedop, Make<SemaphoreWait>},
};

Maker MakerOf(int call) {
  for (const auto& wait : kWaits) {
    if (wait.call == call) return wait.make;
  }
  return nullptr;
}

}  // namespace

bool IsWait(int call) { return MakerOf(call) != nullptr; }

std::unique_ptr<TimedWait> ParseWait(const CallArguments& call, const TimedWait::Present& present,
                                     TimedWait::Memory memory) {
  const Maker make = MakerOf(call.number());
  return make == nullptr ? nullptr : make(call, present, std::move(memory));
}

}  // namespace phantora
