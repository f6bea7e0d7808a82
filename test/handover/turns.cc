// Two processes take turns: one gives the turn away, the other computes for a while (it sleeps) and
// gives it back. Prints how long a turn took on average by CLOCK_MONOTONIC, in microseconds.
//
// usage: turns WAY TURNS MICROSECONDS
//
// WAY says how a process waits for its turn and is told: "pipe", "socket", "eventfd", "futex",
// "timed-futex", "semaphore", and those that look at shared memory again and again: "yield",
// "yield-clock" (as vLLM's message queue does), "sleep-0", "short-sleeps", "poll-0", "bare".
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>

namespace {

struct Shared {
  std::atomic<uint32_t> turn[2];  // how often each has been told
  sem_t semaphores[2];
};
Shared* shared;
int descriptors[2][2];  // per process: where it reads that it is told, where it is told

[[noreturn]] void Fail(const char* what) {
  perror(what);
  _exit(1);
}

void Sleep(int64_t nanoseconds) {
  timespec left{.tv_sec = nanoseconds / 1'000'000'000, .tv_nsec = nanoseconds % 1'000'000'000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

// A process whose other has died would wait for its turn for good.
void FailIfTheOtherDied(int) {
  siginfo_t ended{};
  if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0 &&
      (ended.si_code != CLD_EXITED || ended.si_status != 0)) {
    constexpr char kWhat[] = "the other process has died\n";
    if (write(2, kWhat, sizeof(kWhat) - 1) < 0) _exit(2);
    _exit(1);
  }
}

// --- Ways ---

struct Way {
  std::function<void()> prepare = [] {};
  std::function<void(int whom, uint32_t turn)> tell;
  std::function<void(int who, uint32_t turn)> wait;
};

Way OfDescriptors(std::function<void(int (&)[2])> open, size_t bytes) {
  return {.prepare =
              [open] {
                for (auto& pair : descriptors) open(pair);
              },
          .tell =
              [bytes](int whom, uint32_t) {
                const uint64_t one = 1;
                if (write(descriptors[whom][1], &one, bytes) != static_cast<ssize_t>(bytes)) {
                  Fail("write");
                }
              },
          .wait =
              [bytes](int who, uint32_t) {
                uint64_t value;
                if (read(descriptors[who][0], &value, bytes) != static_cast<ssize_t>(bytes)) {
                  Fail("read");
                }
              }};
}

Way OfFutexes(const timespec* limit) {
  return {.tell =
              [](int whom, uint32_t turn) {
                shared->turn[whom] = turn;
                syscall(SYS_futex, &shared->turn[whom], FUTEX_WAKE, 1, nullptr, nullptr, 0);
              },
          .wait =
              [limit](int who, uint32_t turn) {
                while (shared->turn[who] != turn) {
                  syscall(SYS_futex, &shared->turn[who], FUTEX_WAIT, turn - 1, limit, nullptr, 0);
                }
              }};
}

// `look_away` is made between two looks.
Way OfMemory(std::function<void()> look_away) {
  return {.tell = [](int whom, uint32_t turn) { shared->turn[whom] = turn; },
          .wait =
              [look_away](int who, uint32_t turn) {
                while (shared->turn[who] != turn) look_away();
              }};
}

std::map<std::string, Way> Ways() {
  static const timespec second{.tv_sec = 1, .tv_nsec = 0};
  const auto open_pipe = [](int(&pair)[2]) {
    if (pipe(pair) != 0) Fail("pipe");
  };
  const auto open_sockets = [](int(&pair)[2]) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) Fail("socketpair");
  };
  const auto open_event = [](int(&pair)[2]) {
    pair[0] = pair[1] = eventfd(0, EFD_SEMAPHORE);
    if (pair[0] < 0) Fail("eventfd");
  };
  return {
      {"pipe", OfDescriptors(open_pipe, 1)},
      {"socket", OfDescriptors(open_sockets, 1)},
      {"eventfd", OfDescriptors(open_event, 8)},
      {"futex", OfFutexes(nullptr)},
      {"timed-futex", OfFutexes(&second)},
      {"semaphore",
       {.prepare =
            [] {
              for (sem_t& semaphore : shared->semaphores) sem_init(&semaphore, 1, 0);
            },
        .tell = [](int whom, uint32_t) { sem_post(&shared->semaphores[whom]); },
        .wait =
            [](int who, uint32_t) {
              while (sem_wait(&shared->semaphores[who]) != 0) {
              }
            }}},
      {"yield", OfMemory([] { sched_yield(); })},
      {"yield-clock", OfMemory([] {
         sched_yield();
         Now();
       })},
      {"sleep-0", OfMemory([] { Sleep(0); })},
      {"short-sleeps", OfMemory([] { Sleep(50'000); })},
      {"poll-0", OfMemory([] { poll(nullptr, 0, 0); })},
      {"bare", OfMemory([] {})},
  };
}

}  // namespace

int main(int argc, char** argv) {
  const auto ways = Ways();
  const auto way = ways.find(argc == 4 ? argv[1] : "");
  if (way == ways.end()) {
    fprintf(stderr, "usage: turns WAY TURNS MICROSECONDS; ways:");
    for (const auto& [name, unused] : ways) fprintf(stderr, " %s", name.c_str());
    fprintf(stderr, "\n");
    return 2;
  }
  const auto turns = static_cast<uint32_t>(atoi(argv[2]));
  const int64_t nanoseconds = atoll(argv[3]) * 1000;
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Fail("mmap");
  shared = new (memory) Shared();
  way->second.prepare();
  struct sigaction action {};
  action.sa_handler = FailIfTheOtherDied;
  action.sa_flags = SA_RESTART;
  sigaction(SIGCHLD, &action, nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) Fail("fork");
  if (child == 0) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(1);
    for (uint32_t turn = 1; turn <= turns; ++turn) {
      way->second.wait(1, turn);
      Sleep(nanoseconds);
      way->second.tell(0, turn);
    }
    _exit(0);
  }
  Sleep(10'000'000);  // the other waits by then
  const int64_t begin = Now();
  for (uint32_t turn = 1; turn <= turns; ++turn) {
    way->second.tell(1, turn);
    way->second.wait(0, turn);
  }
  printf("%.3f\n", static_cast<double>(Now() - begin) / 1000 / turns);
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) Fail("the other process");
  return 0;
}
