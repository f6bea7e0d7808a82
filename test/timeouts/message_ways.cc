// What one process tells another carries time: no reader's clock is earlier than the writer's was,
// and none is later than it has to be. Messages hold the writer's time.
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "test/support/descriptors.h"
#include "test/timeouts/sockets.h"

namespace {

// As far as a writer's own work puts it ahead of a reader who waits. Little, because every read of
// a clock is a call where clocks are simulated.
constexpr double kWork = 0.0002;

void Say(int descriptor) {
  const int64_t now = Now();
  CHECK(write(descriptor, &now, sizeof now) == sizeof now);
}

void Heard(int64_t sent) {
  CHECK(sent > 0);
  CHECK(Now() >= sent);
}

using Hearing = void (*)(int descriptor);

void Hear(int descriptor) {
  int64_t sent = 0;
  CHECK(read(descriptor, &sent, sizeof sent) == sizeof sent);
  Heard(sent);
}

void HearByPoll(int descriptor) {
  pollfd poll_descriptor{descriptor, POLLIN, 0};
  CHECK(poll(&poll_descriptor, 1, -1) == 1);
  Hear(descriptor);
}

void HearByPollWithALimit(int descriptor) {
  pollfd poll_descriptor{descriptor, POLLIN, 0};
  CHECK(poll(&poll_descriptor, 1, UnitsMilliseconds(100)) == 1);
  Hear(descriptor);
}

void HearByEpoll(int descriptor) {
  const int set = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  CHECK(epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) == 0);
  CHECK(epoll_wait(set, &event, 1, -1) == 1);
  Hear(descriptor);
  close(set);
}

void HearByTrying(int descriptor) {
  // A non-blocking reader that sleeps between its attempts.
  int64_t sent = 0;
  while (recv(descriptor, &sent, sizeof sent, MSG_DONTWAIT) != sizeof sent) {
    CHECK(errno == EAGAIN);
    Sleep(0.05);
  }
  Heard(sent);
}

void HearByReadv(int descriptor) {
  int64_t sent = 0;
  char* bytes = reinterpret_cast<char*>(&sent);
  const iovec parts[2] = {{bytes, 3}, {bytes + 3, 5}};
  CHECK(readv(descriptor, parts, 2) == sizeof sent);
  Heard(sent);
}

void HearByRecvmsg(int descriptor) {
  int64_t sent = 0;
  iovec part{&sent, sizeof sent};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  CHECK(recvmsg(descriptor, &message, 0) == sizeof sent);
  Heard(sent);
}

// Ten times there and back; each side sleeps, computes a little, and speaks.
void PingPong(int parent_reads, int parent_writes, int child_reads, int child_writes,
              Hearing hear = Hear) {
  const auto speak = [](int descriptor) {
    Sleep(0.5);
    Compute(kWork / 4);
    Say(descriptor);
  };
  const pid_t child = ForkChild([&] {
    for (int i = 0; i < 10; ++i) {
      hear(child_reads);
      speak(child_writes);
    }
  });
  for (int i = 0; i < 10; ++i) {
    speak(parent_writes);
    hear(parent_reads);
  }
  WaitForChild(child);
  Expect(20 * (0.5 + kWork / 4));
}

void PingPongOver(int family, int type, Hearing hear = Hear) {
  const SocketPair sockets(family, type);
  PingPong(sockets.left, sockets.left, sockets.right, sockets.right, hear);
}

// A child that computes, then writes to its parent, who waits all the while.
void FromABusyChild(int reader, int writer, Hearing hear = Hear) {
  const pid_t child = ForkChild([&] {
    Compute(5 * kWork);
    Say(writer);
    Sleep(10);
  });
  hear(reader);
  KillChild(child);
  Expect(5 * kWork);
}

void FromABusyChildOver(int family, int type, Hearing hear = Hear) {
  const SocketPair sockets(family, type);
  FromABusyChild(sockets.left, sockets.right, hear);
}

void SendDescriptor(int socket, int descriptor) {
  const int64_t now = Now();
  CHECK(SendWithDescriptor(socket, &now, sizeof now, descriptor, 0) == sizeof now);
}

int ReceiveDescriptor(int socket) {
  int64_t sent = 0;
  int descriptor = -1;
  CHECK(ReceiveWithDescriptor(socket, &sent, sizeof sent, &descriptor, MSG_CMSG_CLOEXEC) ==
        sizeof sent);
  Heard(sent);
  CHECK(descriptor >= 0);
  return descriptor;
}

}  // namespace

WAY(pipe_from_a_sleeping_child, 10) {
  const Pipe pipe;
  const pid_t child = ForkChild([&] {
    Sleep(10);
    Say(pipe.writer);
  });
  Hear(pipe.reader);
  WaitForChild(child);
}

WAY(pipe_from_a_busy_child, 0) {
  const Pipe pipe;
  FromABusyChild(pipe.reader, pipe.writer);
}

WAY(unix_stream_from_a_busy_child, 0) { FromABusyChildOver(AF_UNIX, SOCK_STREAM); }
WAY(unix_datagram_from_a_busy_child, 0) { FromABusyChildOver(AF_UNIX, SOCK_DGRAM); }
WAY(tcp_from_a_busy_child, 0) { FromABusyChildOver(AF_INET, SOCK_STREAM); }
WAY(udp_from_a_busy_child, 0) { FromABusyChildOver(AF_INET, SOCK_DGRAM); }

WAY(polled_pipe_from_a_busy_child, 0) {
  const Pipe pipe;
  FromABusyChild(pipe.reader, pipe.writer, HearByPoll);
}

WAY(polled_tcp_from_a_busy_child, 0) { FromABusyChildOver(AF_INET, SOCK_STREAM, HearByPoll); }

WAY(pipe_ping_pong, 0) {
  const Pipe there, back;
  PingPong(back.reader, there.writer, there.reader, back.writer);
}

WAY(pipe_ping_pong_by_readv, 0) {
  const Pipe there, back;
  PingPong(back.reader, there.writer, there.reader, back.writer, HearByReadv);
}

WAY(pipe_ping_pong_by_poll, 0) {
  const Pipe there, back;
  PingPong(back.reader, there.writer, there.reader, back.writer, HearByPoll);
}

WAY(unix_stream_ping_pong, 0) { PingPongOver(AF_UNIX, SOCK_STREAM); }
WAY(unix_stream_ping_pong_by_recvmsg, 0) { PingPongOver(AF_UNIX, SOCK_STREAM, HearByRecvmsg); }
WAY(unix_datagram_ping_pong, 0) { PingPongOver(AF_UNIX, SOCK_DGRAM); }
WAY(unix_seqpacket_ping_pong, 0) { PingPongOver(AF_UNIX, SOCK_SEQPACKET); }
WAY(tcp_ping_pong, 0) { PingPongOver(AF_INET, SOCK_STREAM); }
WAY(tcp_ping_pong_by_poll, 0) { PingPongOver(AF_INET, SOCK_STREAM, HearByPollWithALimit); }
WAY(tcp_ping_pong_by_epoll, 0) { PingPongOver(AF_INET, SOCK_STREAM, HearByEpoll); }
WAY(tcp_ping_pong_by_recvmsg, 0) { PingPongOver(AF_INET, SOCK_STREAM, HearByRecvmsg); }
WAY(udp_ping_pong, 0) { PingPongOver(AF_INET, SOCK_DGRAM); }

WAY(a_reader_that_tries_again_and_again, 10) {
  const SocketPair sockets(AF_UNIX, SOCK_STREAM);
  const pid_t child = ForkChild([&] {
    Sleep(9.98);
    Say(sockets.right);
  });
  HearByTrying(sockets.left);  // at 10
  WaitForChild(child);
}

WAY(writev_and_readv, 10) {
  const Pipe pipe;
  const pid_t child = ForkChild([&] {
    Sleep(10);
    int64_t now = Now();
    char* bytes = reinterpret_cast<char*>(&now);
    const iovec parts[2] = {{bytes, 5}, {bytes + 5, 3}};
    CHECK(writev(pipe.writer, parts, 2) == sizeof now);
  });
  HearByReadv(pipe.reader);
  WaitForChild(child);
}

WAY(splice_from_a_child, 10) {
  const Pipe from, to;
  const pid_t child = ForkChild([&] {
    Sleep(10);
    Say(from.writer);
  });
  CHECK(splice(from.reader, nullptr, to.writer, nullptr, 8, 0) == 8);
  Hear(to.reader);
  WaitForChild(child);
}

WAY(message_with_a_descriptor, 20) {
  const SocketPair sockets(AF_UNIX, SOCK_STREAM);
  const pid_t child = ForkChild([&] {
    const Pipe pipe;
    Sleep(10);
    SendDescriptor(sockets.right, pipe.reader);
    Sleep(10);
    Say(pipe.writer);
  });
  const int reader = ReceiveDescriptor(sockets.left);
  Hear(reader);
  close(reader);
  WaitForChild(child);
}

WAY(eventfd_from_a_child, 10) {
  const int descriptor = eventfd(0, EFD_CLOEXEC);
  auto* sent = Shared<volatile int64_t>();
  const pid_t child = ForkChild([&] {
    Sleep(10 - kWork);
    Compute(kWork);
    *sent = Now();
    CHECK(eventfd_write(descriptor, 3) == 0);
  });
  eventfd_t count = 0;
  CHECK(eventfd_read(descriptor, &count) == 0);
  CHECK(count == 3);
  Heard(*sent);
  WaitForChild(child);
  close(descriptor);
}

WAY(semaphore_shared_with_a_child, 10) {
  sem_t* semaphore = static_cast<sem_t*>(SharedMemory(sizeof(sem_t)));
  CHECK(sem_init(semaphore, 1, 0) == 0);
  auto* sent = Shared<volatile int64_t>();
  const pid_t child = ForkChild([&] {
    Sleep(10 - kWork);
    Compute(kWork);
    *sent = Now();
    CHECK(sem_post(semaphore) == 0);
  });
  CHECK(sem_wait(semaphore) == 0);
  Heard(*sent);
  WaitForChild(child);
}

WAY(semaphore_that_two_children_wait_for, 10) {
  // One of them goes on each time; with a limit, the other way of waiting for the same.
  for (const bool limited : {false, true}) {
    sem_t* semaphore = static_cast<sem_t*>(SharedMemory(sizeof(sem_t)));
    CHECK(sem_init(semaphore, 1, 0) == 0);
    auto* woken = static_cast<volatile int64_t*>(SharedMemory(2 * sizeof(int64_t)));
    pid_t children[2];
    for (int i = 0; i < 2; ++i) {
      children[i] = ForkChild([&] {
        const timespec end = After(100, CLOCK_REALTIME);
        CHECK((limited ? sem_timedwait(semaphore, &end) : sem_wait(semaphore)) == 0);
        woken[i] = Now();
      });
    }
    Sleep(2.5);
    const int64_t first = Now();
    CHECK(sem_post(semaphore) == 0);
    Sleep(2.5 - kWork);
    Compute(kWork);
    const int64_t second = Now();
    CHECK(sem_post(semaphore) == 0);
    for (const pid_t child : children) WaitForChild(child);
    CHECK(std::min(woken[0], woken[1]) >= first && std::min(woken[0], woken[1]) < second);
    CHECK(std::max(woken[0], woken[1]) >= second);
  }
}

WAY(signal_for_who_waits_for_a_futex, 10) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
  UnblockSignal(SIGUSR1);
  auto* sent = Shared<volatile int64_t>();
  const pid_t child = ForkChild([&] {
    Sleep(10 - kWork);
    Compute(kWork);
    *sent = Now();
    CHECK(kill(getppid(), SIGUSR1) == 0);
  });
  uint32_t word = 0;
  CHECK_ERROR(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0), EINTR);
  Heard(*sent);
  WaitForChild(child);
}

WAY(signal_from_a_child, 10) {
  BlockSignal(SIGUSR1);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  auto* sent = Shared<volatile int64_t>();
  const pid_t child = ForkChild([&] {
    Sleep(10 - kWork);
    Compute(kWork);
    *sent = Now();
    CHECK(kill(getppid(), SIGUSR1) == 0);
  });
  CHECK(sigwaitinfo(&set, nullptr) == SIGUSR1);
  Heard(*sent);
  WaitForChild(child);
}

WAY(end_of_a_child, 10) {
  auto* sent = Shared<volatile int64_t>();
  const pid_t child = ForkChild([&] {
    Sleep(10 - kWork);
    Compute(kWork);
    *sent = Now();
  });
  WaitForChild(child);
  Heard(*sent);
}

WAY(end_of_file_from_a_child, 10) {
  const Pipe pipe;
  auto* sent = Shared<volatile int64_t>();
  const pid_t child = ForkChild([&] {
    Sleep(10 - kWork);
    Compute(kWork);
    *sent = Now();
    close(pipe.writer);
    Sleep(10);
  });
  close(pipe.writer);
  char byte;
  CHECK(read(pipe.reader, &byte, 1) == 0);
  Heard(*sent);
  KillChild(child);
}

WAY(lock_released_by_a_child, 10) {
  const int file = memfd_create("lock", MFD_CLOEXEC);
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  const Pipe locked;
  auto* sent = Shared<volatile int64_t>();
  const pid_t child = ForkChild([&] {
    const int own = open(path.c_str(), O_RDWR | O_CLOEXEC);
    CHECK(flock(own, LOCK_EX) == 0);
    locked.Put();
    Sleep(10 - kWork);
    Compute(kWork);
    *sent = Now();
    CHECK(flock(own, LOCK_UN) == 0);
    Sleep(10);
  });
  locked.Take();
  CHECK(flock(file, LOCK_EX) == 0);
  Heard(*sent);
  KillChild(child);
  close(file);
}

WAY(a_full_pipe_that_a_child_empties, 10) {
  // The other way round: a writer goes on when a reader has made room.
  const Pipe pipe;
  CHECK(fcntl(pipe.writer, F_SETPIPE_SZ, 4096) == 4096);
  char page[4096] = {};
  CHECK(write(pipe.writer, page, sizeof page) == sizeof page);
  auto* read_at = Shared<volatile int64_t>();
  const pid_t child = ForkChild([&] {
    Sleep(10 - kWork);
    Compute(kWork);
    *read_at = Now();
    CHECK(read(pipe.reader, page, sizeof page) == sizeof page);
    Sleep(10);
  });
  CHECK(write(pipe.writer, page, sizeof page) == sizeof page);
  Heard(*read_at);
  KillChild(child);
}

WAY(late_reader, 10) {
  // Long since there, so it moves nobody's clock.
  const Pipe pipe, written;
  const pid_t child = ForkChild([&] {
    Say(pipe.writer);
    written.Put();
    Sleep(20);
  });
  written.Take();
  Sleep(10);
  Hear(pipe.reader);
  KillChild(child);
}

WAY(late_reader_of_a_writer_ahead, 10) {
  // What the writer does after writing does not count either.
  const Pipe pipe, done;
  const pid_t child = ForkChild([&] {
    Sleep(5);
    Say(pipe.writer);
    Compute(5 * kWork);
    done.Put();
    Sleep(20);
  });
  Sleep(10);
  Hear(pipe.reader);
  KillChild(child);
}

WAY(late_reader_over_tcp, 10) {
  const SocketPair sockets(AF_INET, SOCK_STREAM);
  const pid_t child = ForkChild([&] {
    Say(sockets.right);
    Sleep(20);
  });
  Sleep(10);
  HearByPoll(sockets.left);
  KillChild(child);
}

WAY(reader_of_many_messages, 10) {
  // Reads all at the end, when the first are old and the last is new.
  const Pipe pipe;
  const pid_t child = ForkChild([&] {
    for (int i = 0; i < 10; ++i) {
      Sleep(1 - kWork / 10);
      Compute(kWork / 10);
      Say(pipe.writer);
    }
  });
  Sleep(9.5);
  for (int i = 0; i < 10; ++i) Hear(pipe.reader);
  WaitForChild(child);
}

WAY(two_children_that_write_to_one_pipe, 15) {
  const Pipe pipe;
  const int64_t begin = Now();
  const auto sleeper = [&](int units) {
    return ForkChild([&pipe, units] {
      Sleep(units);
      CHECK(write(pipe.writer, &units, sizeof units) == sizeof units);
    });
  };
  const pid_t late = sleeper(15), early = sleeper(5);
  for (int wanted : {5, 15}) {
    int units = 0;
    CHECK(read(pipe.reader, &units, sizeof units) == sizeof units);
    CHECK(units == wanted);
    Row(std::to_string(units), units, UnitsSince(begin));
  }
  WaitForChild(early);
  WaitForChild(late);
}

WAY(chain_of_children, 12) {
  // Four processes in a row, each of which sleeps and passes it on.
  Pipe pipes[5];
  pid_t children[4];
  for (int i = 0; i < 4; ++i) {
    children[i] = ForkChild([&pipes, i] {
      Hear(pipes[i].reader);
      Sleep(3 - kWork);
      Compute(kWork);
      Say(pipes[i + 1].writer);
    });
  }
  Say(pipes[0].writer);
  Hear(pipes[4].reader);
  for (const pid_t child : children) WaitForChild(child);
}

WAY(spinning_on_shared_memory, 0.001) {
  // Reads its clock in every turn, so that time passes.
  auto* flag = Shared<volatile int>();
  const pid_t child = ForkChild([&] {
    Sleep(0.001);
    *flag = 1;
  });
  while (*flag == 0) Now();
  WaitForChild(child);
}
