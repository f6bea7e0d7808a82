// Futexes, and what libraries build on them.
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>

#include "test/timeouts/ways.h"

namespace {

// As in linux/futex.h of 5.16, which the C library's headers may predate.
struct FutexWaiter {
  uint64_t value;
  uint64_t address;
  uint32_t flags;
  uint32_t reserved;
};
constexpr uint32_t kFutex32Private = 2 | FUTEX_PRIVATE_FLAG;
constexpr long kFutexWaitv = 449;  // NOLINT(google-runtime-int)

long Futex(uint32_t* word, int operation, uint32_t value,  // NOLINT(google-runtime-int)
           const timespec* time = nullptr) {
  return syscall(SYS_futex, word, operation, value, time, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void FutexWaitv(clockid_t clock) {
  uint32_t words[2] = {7, 8};
  FutexWaiter waiters[2] = {
      {7, reinterpret_cast<uint64_t>(&words[0]), kFutex32Private, 0},
      {8, reinterpret_cast<uint64_t>(&words[1]), kFutex32Private, 0},
  };
  const timespec end = After(10, clock);
  const long result = syscall(kFutexWaitv, waiters, 2, 0, &end, clock);  // NOLINT
  if (result == -1 && errno == ENOSYS) return NotHere();
  CHECK(result == -1 && errno == ETIMEDOUT);
}

struct Condition {
  explicit Condition(clockid_t clock = CLOCK_REALTIME) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    CHECK(pthread_condattr_setclock(&attributes, clock) == 0);
    CHECK(pthread_cond_init(&condition, &attributes) == 0);
    CHECK(pthread_mutex_lock(&mutex) == 0);
  }
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition;
};

void ConditionTimedWait(clockid_t clock) {
  Condition condition(clock);
  const timespec end = After(10, clock);
  CHECK(pthread_cond_timedwait(&condition.condition, &condition.mutex, &end) == ETIMEDOUT);
}

void ConditionClockWait(clockid_t clock) {
  Condition condition;
  const timespec end = After(10, clock);
  CHECK(pthread_cond_clockwait(&condition.condition, &condition.mutex, clock, &end) == ETIMEDOUT);
}

// A mutex that another thread holds for 20 units; `wait` gives up or gets it.
void WithHeldMutex(int protocol, const std::function<void(pthread_mutex_t*)>& wait) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  CHECK(pthread_mutexattr_setprotocol(&attributes, protocol) == 0);
  pthread_mutex_t mutex;
  CHECK(pthread_mutex_init(&mutex, &attributes) == 0);
  const Pipe held;
  const Thread holder([&] {
    CHECK(pthread_mutex_lock(&mutex) == 0);
    held.Put();
    Sleep(20);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
  });
  held.Take();
  wait(&mutex);
}

}  // namespace

WAY(futex_wait, 10) {
  uint32_t word = 5;
  const timespec time = Units(10);
  CHECK_ERROR(Futex(&word, FUTEX_WAIT_PRIVATE, 5, &time), ETIMEDOUT);
}

WAY(futex_wait_shared, 10) {
  uint32_t word = 5;
  const timespec time = Units(10);
  CHECK_ERROR(Futex(&word, FUTEX_WAIT, 5, &time), ETIMEDOUT);
}

WAY(futex_of_another_value, 0) {
  uint32_t word = 5;
  const timespec time = Units(10);
  CHECK_ERROR(Futex(&word, FUTEX_WAIT_PRIVATE, 6, &time), EAGAIN);
}

WAY(futex_wait_bitset_monotonic, 10) {
  uint32_t word = 5;
  const timespec end = After(10);
  CHECK_ERROR(Futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 5, &end), ETIMEDOUT);
}

WAY(futex_wait_bitset_realtime, 10) {
  uint32_t word = 5;
  const timespec end = After(10, CLOCK_REALTIME);
  CHECK_ERROR(Futex(&word, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 5, &end), ETIMEDOUT);
}

WAY(futex_woken_with_a_new_value, 10) {
  uint32_t word = 5;
  const Thread thread([&] {
    Sleep(10);
    __atomic_store_n(&word, 6, __ATOMIC_SEQ_CST);
    CHECK(Futex(&word, FUTEX_WAKE_PRIVATE, 1) >= 0);
  });
  const timespec time = Units(100);
  while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 5) {
    CHECK(Futex(&word, FUTEX_WAIT_PRIVATE, 5, &time) == 0 || errno == EAGAIN);
  }
}

WAY(futex_woken_with_the_old_value, 10) {
  // The word need not change: FUTEX_WAKE alone wakes, and says that it has woken one.
  uint32_t word = 5;
  const Thread thread([&] {
    Sleep(10);
    CHECK(Futex(&word, FUTEX_WAKE_PRIVATE, 1) == 1);
  });
  const timespec time = Units(100);
  CHECK(Futex(&word, FUTEX_WAIT_PRIVATE, 5, &time) == 0);
}

WAY(futex_lock_pi, 20) {
  WithHeldMutex(PTHREAD_PRIO_INHERIT, [](pthread_mutex_t* mutex) {
    const int64_t begin = Now();
    const timespec end = After(10, CLOCK_REALTIME);
    CHECK(pthread_mutex_timedlock(mutex, &end) == ETIMEDOUT);
    Row("elapsed", 10, UnitsSince(begin));
  });
}

WAY(futex_waitv_monotonic, 10) { FutexWaitv(CLOCK_MONOTONIC); }
WAY(futex_waitv_realtime, 10) { FutexWaitv(CLOCK_REALTIME); }

WAY(cond_timedwait_realtime, 10) { ConditionTimedWait(CLOCK_REALTIME); }
WAY(cond_timedwait_monotonic, 10) { ConditionTimedWait(CLOCK_MONOTONIC); }
WAY(cond_clockwait_realtime, 10) { ConditionClockWait(CLOCK_REALTIME); }
WAY(cond_clockwait_monotonic, 10) { ConditionClockWait(CLOCK_MONOTONIC); }

WAY(cond_signalled, 10) {
  Condition condition(CLOCK_MONOTONIC);
  bool done = false;
  const Thread thread([&] {
    Sleep(10);
    pthread_mutex_lock(&condition.mutex);
    done = true;
    pthread_cond_signal(&condition.condition);
    pthread_mutex_unlock(&condition.mutex);
  });
  const timespec end = After(100);
  while (!done) {
    CHECK(pthread_cond_timedwait(&condition.condition, &condition.mutex, &end) == 0);
  }
  pthread_mutex_unlock(&condition.mutex);
}

WAY(mutex_timedlock, 20) {
  WithHeldMutex(PTHREAD_PRIO_NONE, [](pthread_mutex_t* mutex) {
    const int64_t begin = Now();
    const timespec end = After(10, CLOCK_REALTIME);
    CHECK(pthread_mutex_timedlock(mutex, &end) == ETIMEDOUT);
    Row("elapsed", 10, UnitsSince(begin));
  });
}

WAY(mutex_clocklock, 20) {
  WithHeldMutex(PTHREAD_PRIO_NONE, [](pthread_mutex_t* mutex) {
    const int64_t begin = Now();
    const timespec end = After(10);
    CHECK(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &end) == ETIMEDOUT);
    Row("elapsed", 10, UnitsSince(begin));
  });
}

WAY(mutex_timedlock_gets_it, 20) {
  WithHeldMutex(PTHREAD_PRIO_NONE, [](pthread_mutex_t* mutex) {
    const timespec end = After(100, CLOCK_REALTIME);
    CHECK(pthread_mutex_timedlock(mutex, &end) == 0);
    pthread_mutex_unlock(mutex);
  });
}

WAY(rwlock_timedlock, 20) {
  pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  CHECK(pthread_rwlock_wrlock(&lock) == 0);
  const Thread thread([&] {
    timespec end = After(10, CLOCK_REALTIME);
    CHECK(pthread_rwlock_timedrdlock(&lock, &end) == ETIMEDOUT);
    end = After(10, CLOCK_REALTIME);
    CHECK(pthread_rwlock_timedwrlock(&lock, &end) == ETIMEDOUT);
  });
}

WAY(sem_timedwait_call, 10) {
  sem_t semaphore;
  CHECK(sem_init(&semaphore, 0, 0) == 0);
  const timespec end = After(10, CLOCK_REALTIME);
  CHECK_ERROR(sem_timedwait(&semaphore, &end), ETIMEDOUT);
}

WAY(sem_clockwait_call, 10) {
  sem_t semaphore;
  CHECK(sem_init(&semaphore, 0, 0) == 0);
  const timespec end = After(10);
  CHECK_ERROR(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &end), ETIMEDOUT);
}

WAY(sem_posted, 10) {
  sem_t semaphore;
  CHECK(sem_init(&semaphore, 0, 0) == 0);
  const Thread thread([&] {
    Sleep(10);
    sem_post(&semaphore);
  });
  const timespec end = After(100, CLOCK_REALTIME);
  CHECK(sem_timedwait(&semaphore, &end) == 0);
}

WAY(timedjoin, 10) {
  const Pipe pipe;
  Thread thread([&] { pipe.Take(); });
  const timespec end = After(10, CLOCK_REALTIME);
  CHECK(pthread_timedjoin_np(thread.get(), nullptr, &end) == ETIMEDOUT);
  pipe.Put();
}

WAY(std_condition_variable, 10) {
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  CHECK(!condition.wait_for(lock, std::chrono::nanoseconds(10 * UnitNanoseconds()),
                            [] { return false; }));
}

WAY(std_timed_mutex, 10) {
  std::timed_mutex mutex;
  mutex.lock();
  const Thread thread(
      [&] { CHECK(!mutex.try_lock_for(std::chrono::nanoseconds(10 * UnitNanoseconds()))); });
}

WAY(std_future, 10) {
  std::promise<int> promise;
  std::future<int> future = promise.get_future();
  CHECK(future.wait_for(std::chrono::nanoseconds(10 * UnitNanoseconds())) ==
        std::future_status::timeout);
  promise.set_value(1);
  CHECK(future.get() == 1);
}

WAY(three_threads_sleep, 20) {
  const Thread first([] { Sleep(5); });
  const Thread second([] { Sleep(20); });
  const Thread third([] { Sleep(10); });
}
