#include "test/timeouts/ways.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace {

double unit_seconds = 1;
const Way* running = nullptr;
double expected_units = 0;
bool not_here = false, judged = true;
std::vector<std::string> rows;
volatile int signal_counts[NSIG];

void CountOne(int signal) { signal_counts[signal] = signal_counts[signal] + 1; }

void AddRow(const std::string& name, const std::string& value) {
  rows.push_back("\"" + name + "\": " + value);
}

std::string Number(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.9f", value);
  return text;
}

std::string Detail(const std::string& detail) { return std::string(running->name) + "/" + detail; }

void RunWay(const Way& way) {
  running = &way;
  expected_units = way.units;
  not_here = false;
  judged = true;
  const int64_t begin = Now();
  way.run();
  const double took = UnitsSince(begin);
  const std::string asked = judged ? Number(expected_units) : "null";
  AddRow(way.name, not_here ? "null" : "[" + asked + ", " + Number(took) + "]");
}

void RunWays(int count, char** names) {
  for (const Way& way : AllWays()) {
    bool wanted = count == 0;
    for (int i = 0; i < count; ++i) wanted |= strcmp(names[i], way.name) == 0;
    if (wanted) RunWay(way);
  }
}

void PrintRows() {
  const char* separator = "";
  printf("{");
  for (const std::string& row : rows) {
    printf("%s%s", separator, row.c_str());
    separator = ",\n ";
  }
  printf("}\n");
}

}  // namespace

std::vector<Way>& AllWays() {
  static std::vector<Way>& ways = *new std::vector<Way>;
  return ways;
}

void Row(const std::string& detail, double asked, double took) {
  AddRow(Detail(detail), "[" + Number(asked) + ", " + Number(took) + "]");
}

void Remark(const std::string& detail, double value) {
  AddRow(Detail(detail), "[null, " + Number(value) + "]");
}

void Expect(double units) { expected_units = units; }

void ExpectNothing() { judged = false; }

void NotHere() { not_here = true; }

void Fail(const char* file, int line, const char* text) {
  const int error = errno;
  const char* name = strrchr(file, '/');
  fprintf(stderr, "FAIL %s: %s:%d: %s; errno is %d (%s)\n", running ? running->name : "",
          name ? name + 1 : file, line, text, error, strerror(error));
  _exit(1);
}

int64_t UnitNanoseconds() { return llround(unit_seconds * kNanosecondsPerSecond); }

int64_t Nanoseconds(const timespec& time) {
  return time.tv_sec * kNanosecondsPerSecond + time.tv_nsec;
}

timespec Timespec(int64_t nanoseconds) {
  return {nanoseconds / kNanosecondsPerSecond, nanoseconds % kNanosecondsPerSecond};
}

timespec Units(double units) { return Timespec(llround(units * UnitNanoseconds())); }

timeval UnitsTimeval(double units) {
  const timespec time = Units(units);
  return {time.tv_sec, time.tv_nsec / 1000};
}

int UnitsMilliseconds(double units) {
  return static_cast<int>(lround(units * unit_seconds * 1000));
}

double InUnits(int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / static_cast<double>(UnitNanoseconds());
}

double InUnits(const timespec& time) { return InUnits(Nanoseconds(time)); }

int64_t Now(clockid_t clock) {
  timespec time;
  CHECK(clock_gettime(clock, &time) == 0);
  return Nanoseconds(time);
}

timespec After(double units, clockid_t clock) {
  return Timespec(Now(clock) + Nanoseconds(Units(units)));
}

double UnitsSince(int64_t begin, clockid_t clock) { return InUnits(Now(clock) - begin); }

itimerspec Timer(double first, double period) { return {Units(period), Units(first)}; }

void Sleep(double units) {
  const timespec end = After(units);
  int error;
  while ((error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr)) == EINTR) {
  }
  CHECK(error == 0);
}

void Compute(double units) {
  const int64_t begin = Now();
  while (UnitsSince(begin) < units) {
  }
}

Thread::Thread(std::function<void()> body) : body_(std::move(body)) {
  CHECK(pthread_create(&thread_, nullptr, Run, this) == 0);
}

Thread::~Thread() { CHECK(pthread_join(thread_, nullptr) == 0); }

void* Thread::Run(void* self) {
  static_cast<Thread*>(self)->body_();
  return nullptr;
}

pid_t ForkChild(const std::function<void()>& body) {
  fflush(stdout);
  const pid_t parent = getpid();
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  body();
  _exit(0);
}

void WaitForChild(pid_t child) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void KillChild(pid_t child) {
  int status = 0;
  CHECK(kill(child, SIGKILL) == 0);
  CHECK(waitpid(child, &status, 0) == child);
}

void* SharedMemory(size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}

Pipe::Pipe() {
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  reader = ends[0];
  writer = ends[1];
}

Pipe::~Pipe() {
  close(reader);
  close(writer);
}

void Pipe::Put() const { CHECK(write(writer, "x", 1) == 1); }

void Pipe::Take() const {
  char byte;
  CHECK(read(reader, &byte, 1) == 1);
}

volatile int* CountSignal(int signal, int flags) {
  struct sigaction action {};
  action.sa_handler = CountOne;
  action.sa_flags = flags;
  signal_counts[signal] = 0;
  CHECK(sigaction(signal, &action, nullptr) == 0);
  UnblockSignal(signal);
  return &signal_counts[signal];
}

void BlockSignal(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
}

void UnblockSignal(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  CHECK(pthread_sigmask(SIG_UNBLOCK, &set, nullptr) == 0);
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    for (const Way& way : AllWays()) printf("%s\n", way.name);
    return 0;
  }
  unit_seconds = argc > 1 ? atof(argv[1]) : 0;
  if (unit_seconds <= 0) {
    fprintf(stderr, "usage: timeouts SECONDS_PER_UNIT [WAY...]\n       timeouts --list\n");
    return 2;
  }
  RunWays(argc - 2, argv + 2);
  PrintRows();
  return 0;
}
