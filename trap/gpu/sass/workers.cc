#include "trap/gpu/sass/workers.h"

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <system_error>

namespace phantora::sass {

int Workers::Processors() {
  cpu_set_t set;
  // Machines with more processors than the set has room for have enough.
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
    return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
  }
  return std::max(CPU_COUNT(&set), 1);
}

Workers::~Workers() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::StartThreads() {
  started_ = true;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (int number = 1; number < wanted_; ++number) {
      threads_.emplace_back([this, number] { Serve(number); });
    }
  } catch (const std::system_error&) {
    // Those that there are do it.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Workers::Serve(int number) {
  std::unique_lock lock(mutex_);
  for (uint64_t seen = 0;;) {
    changed_.wait(lock, [&] { return ending_ || round_ != seen; });
    if (ending_) return;
    seen = round_;
    const auto* const work = work_;
    lock.unlock();
    (*work)(number);
    lock.lock();
    if (--busy_ == 0) done_.notify_all();
  }
}

void Workers::Run(absl::FunctionRef<void(int)> work, absl::FunctionRef<void()> meanwhile) {
  using namespace std::chrono_literals;
  if (!started_) StartThreads();
  {
    std::lock_guard lock(mutex_);
    work_ = &work;
    busy_ = threads_.size();
    ++round_;
  }
  changed_.notify_all();
  work(0);
  std::unique_lock lock(mutex_);
  while (!done_.wait_for(lock, 5ms, [&] { return busy_ == 0; })) {
    lock.unlock();
    meanwhile();
    lock.lock();
  }
}

}  // namespace phantora::sass
