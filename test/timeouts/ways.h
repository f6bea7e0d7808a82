// What all ways of waiting share. A way is a function that waits for a known number of units:
//
//   WAY(nanosleep_call, 10) { const timespec time = Units(10); CHECK(nanosleep(&time, nullptr) ==
//   0); }
//
// Its duration by CLOCK_MONOTONIC becomes a row of the output. It may add rows of its own, for what
// another clock says or how often a timer has expired. Expectations are exact: what noise to allow
// is for the reader of the output to decide.
#ifndef PHANTORA_TEST_TIMEOUTS_WAYS_H_
#define PHANTORA_TEST_TIMEOUTS_WAYS_H_

#include <sys/types.h>
#include <time.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

struct itimerspec;
struct timeval;

struct Way {
  const char* name;
  double units;
  void (*run)();
};

// All of them, in the order of their definition.
std::vector<Way>& AllWays();

struct WayRegistration {
  explicit WayRegistration(const Way& way) { AllWays().push_back(way); }
};

#define WAY(name, units)                                                        \
  static void Way_##name();                                                     \
  static const WayRegistration registration_##name({#name, units, Way_##name}); \
  static void Way_##name()

// ---- What a way reports.

// A further row, "way/detail".
void Row(const std::string& detail, double asked, double took);
// A further row that nobody judges.
void Remark(const std::string& detail, double value);
// Replaces the number of units that the way should take.
void Expect(double units);
// Nobody judges how long this way takes.
void ExpectNothing();
// The kernel lacks what the way is about. `return NotHere();`
void NotHere();

// Prints "FAIL way: text" and ends this process at once.
[[noreturn]] void Fail(const char* file, int line, const char* text);
// Also names errno, which the condition may have set.
#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) Fail(__FILE__, __LINE__, "wanted " #condition); \
  } while (false)
// A call that returns -1 and sets errno.
#define CHECK_ERROR(call, error)                                                                   \
  do {                                                                                             \
    errno = 0;                                                                                     \
    if ((call) != -1 || errno != (error)) Fail(__FILE__, __LINE__, "wanted " #error " of " #call); \
  } while (false)

// ---- Time. All in units, but for nanoseconds.

inline constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

int64_t UnitNanoseconds();
int64_t Nanoseconds(const timespec& time);
timespec Timespec(int64_t nanoseconds);
timespec Units(double units);
timeval UnitsTimeval(double units);
int UnitsMilliseconds(double units);
double InUnits(int64_t nanoseconds);
double InUnits(const timespec& time);

int64_t Now(clockid_t clock = CLOCK_MONOTONIC);
timespec After(double units, clockid_t clock = CLOCK_MONOTONIC);
double UnitsSince(int64_t begin, clockid_t clock = CLOCK_MONOTONIC);
itimerspec Timer(double first, double period = 0);

// Sleeps, however many signals arrive.
void Sleep(double units);
// Reads the clock until so much time has passed.
void Compute(double units);

// ---- Threads, processes, descriptors.

// Runs `body` in a thread of its own that is joined when this object ends.
class Thread {
 public:
  explicit Thread(std::function<void()> body);
  ~Thread();
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  pthread_t get() const { return thread_; }

 private:
  static void* Run(void* self);
  std::function<void()> body_;
  pthread_t thread_;
};

// Runs `body` in a forked child that exits 0 when it returns and dies with this process.
pid_t ForkChild(const std::function<void()>& body);
// Wants it to have exited with 0.
void WaitForChild(pid_t child);
void KillChild(pid_t child);

// Memory that forked children share.
void* SharedMemory(size_t size);
template <typename T>
T* Shared() {
  return new (SharedMemory(sizeof(T))) T();
}

struct Pipe {
  Pipe();
  ~Pipe();
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void Put() const;   // one byte
  void Take() const;  // one byte
  int reader, writer;
};

// Installs a handler that counts, and returns the counter, which starts at 0.
volatile int* CountSignal(int signal, int flags = 0);
// Blocks it in the calling thread and those that it starts.
void BlockSignal(int signal);
void UnblockSignal(int signal);

#endif  // PHANTORA_TEST_TIMEOUTS_WAYS_H_
