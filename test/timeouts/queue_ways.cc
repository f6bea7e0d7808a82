// Message queues and System V semaphores.
#include <fcntl.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "test/timeouts/ways.h"

namespace {

// A queue for one message of 8 bytes; invalid where the kernel has no message queues.
class Queue {
 public:
  Queue() {
    mq_attr attributes{};
    attributes.mq_maxmsg = 1;
    attributes.mq_msgsize = 8;
    // Names are the machine's: a process of another namespace may have this one's number, and one
    // that was killed may have left its queue.
    for (int attempt = 0; !valid() && (attempt == 0 || errno == EEXIST); ++attempt) {
      CHECK(attempt < kAttempts);
      const std::string name =
          "/phantora_timeouts_" + std::to_string(getpid()) + "_" + std::to_string(attempt);
      queue_ = mq_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attributes);
      if (valid()) mq_unlink(name.c_str());
    }
    CHECK(valid() || errno == ENOSYS);
  }
  ~Queue() {
    if (valid()) mq_close(queue_);
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  bool valid() const { return queue_ != -1; }
  mqd_t get() const { return queue_; }
  void Send() const { CHECK(mq_send(queue_, "12345678", 8, 0) == 0); }
  void Receive() const {
    char message[8];
    CHECK(mq_receive(queue_, message, sizeof message, nullptr) == 8);
  }

 private:
  static constexpr int kAttempts = 100;
  mqd_t queue_ = -1;
};

// One semaphore of System V; invalid where the kernel has none.
class Semaphore {
 public:
  Semaphore() : set_(semget(IPC_PRIVATE, 1, 0600)) {
    CHECK(valid() || errno == ENOSYS);
    if (valid()) CHECK(semctl(set_, 0, SETVAL, 0) == 0);
  }
  ~Semaphore() {
    if (valid()) semctl(set_, 0, IPC_RMID);
  }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;
  bool valid() const { return set_ != -1; }
  int Add(short change, const timespec* limit = nullptr) const {  // NOLINT(google-runtime-int)
    sembuf operation{0, change, 0};
    return limit ? semtimedop(set_, &operation, 1, limit) : semop(set_, &operation, 1);
  }

 private:
  int set_;
};

}  // namespace

WAY(mq_timedreceive_call, 10) {
  const Queue queue;
  if (!queue.valid()) return NotHere();
  char message[8];
  const timespec end = After(10, CLOCK_REALTIME);
  CHECK_ERROR(mq_timedreceive(queue.get(), message, sizeof message, nullptr, &end), ETIMEDOUT);
}

WAY(mq_timedreceive_received, 10) {
  const Queue queue;
  if (!queue.valid()) return NotHere();
  const Thread thread([&] {
    Sleep(10);
    queue.Send();
  });
  char message[8];
  const timespec end = After(100, CLOCK_REALTIME);
  CHECK(mq_timedreceive(queue.get(), message, sizeof message, nullptr, &end) == 8);
}

WAY(mq_timedsend_call, 10) {
  const Queue queue;
  if (!queue.valid()) return NotHere();
  queue.Send();
  const timespec end = After(10, CLOCK_REALTIME);
  CHECK_ERROR(mq_timedsend(queue.get(), "12345678", 8, 0, &end), ETIMEDOUT);
}

WAY(mq_timedsend_sent, 10) {
  const Queue queue;
  if (!queue.valid()) return NotHere();
  queue.Send();
  const Thread thread([&] {
    Sleep(10);
    queue.Receive();
  });
  const timespec end = After(100, CLOCK_REALTIME);
  CHECK(mq_timedsend(queue.get(), "12345678", 8, 0, &end) == 0);
}

WAY(mq_of_the_past, 0) {
  const Queue queue;
  if (!queue.valid()) return NotHere();
  char message[8];
  const timespec end{};
  CHECK_ERROR(mq_timedreceive(queue.get(), message, sizeof message, nullptr, &end), ETIMEDOUT);
  queue.Send();
  CHECK(mq_timedreceive(queue.get(), message, sizeof message, nullptr, &end) == 8);
}

WAY(mq_from_a_child, 10) {
  const Queue queue;
  if (!queue.valid()) return NotHere();
  const pid_t child = ForkChild([&] {
    Sleep(10);
    const int64_t now = Now();
    CHECK(mq_send(queue.get(), reinterpret_cast<const char*>(&now), sizeof now, 0) == 0);
  });
  int64_t sent = 0;
  CHECK(mq_receive(queue.get(), reinterpret_cast<char*>(&sent), sizeof sent, nullptr) == 8);
  CHECK(Now() >= sent);
  WaitForChild(child);
}

WAY(semtimedop_call, 10) {
  const Semaphore semaphore;
  if (!semaphore.valid()) return NotHere();
  const timespec time = Units(10);
  CHECK_ERROR(semaphore.Add(-1, &time), EAGAIN);
}

WAY(semtimedop_gets_it, 10) {
  const Semaphore semaphore;
  if (!semaphore.valid()) return NotHere();
  const Thread thread([&] {
    Sleep(10);
    CHECK(semaphore.Add(1) == 0);
  });
  const timespec time = Units(100);
  CHECK(semaphore.Add(-1, &time) == 0);
}

WAY(semop_from_a_child, 10) {
  const Semaphore semaphore;
  if (!semaphore.valid()) return NotHere();
  const pid_t child = ForkChild([&] {
    Sleep(10);
    CHECK(semaphore.Add(1) == 0);
  });
  CHECK(semaphore.Add(-1) == 0);
  WaitForChild(child);
}

WAY(msgrcv_from_a_child, 10) {
  struct {
    long type;  // NOLINT(google-runtime-int)
    int64_t sent;
  } message{1, 0};
  const int queue = msgget(IPC_PRIVATE, 0600);
  if (queue == -1 && errno == ENOSYS) return NotHere();
  CHECK(queue != -1);
  const pid_t child = ForkChild([&] {
    Sleep(10);
    message.sent = Now();
    CHECK(msgsnd(queue, &message, sizeof message.sent, 0) == 0);
  });
  CHECK(msgrcv(queue, &message, sizeof message.sent, 0, 0) == sizeof message.sent);
  CHECK(Now() >= message.sent);
  WaitForChild(child);
  msgctl(queue, IPC_RMID, nullptr);
}
