// What every tracee shares: the main function, checks, byte patterns, RAII for CUDA objects and
// helpers for tests of several processes. A program defines one body:
//
//   TRACEE(memcpy) { Context context(0); ... CHECK_EQ(a, b); }
//
// and gets `--name value` / `--name=value` options through `args`. It prints "PASS memcpy" and
// returns 0, or says what is wrong and exits 1; exit code 77 means that the machine lacks what the
// program needs. A watchdog ends it after 120 s, so that a lost completion is a failure, not a
// hang.
#ifndef PHANTORA_TEST_TRACEES_TRACEE_H_
#define PHANTORA_TEST_TRACEES_TRACEE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "test/tracees/cuda_driver.h"

inline constexpr int kExitSkipped = 77;
inline constexpr size_t kKiB = size_t{1} << 10;
inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kGiB = size_t{1} << 30;

// ---- The program.

class Args {
 public:
  Args(int argc, char** argv);
  bool Has(const std::string& name) const { return values_.count(name) != 0; }
  std::string Get(const std::string& name, const std::string& otherwise = "") const;
  long Number(const std::string& name, long otherwise) const;  // NOLINT(google-runtime-int)
  // "sm=132,name=NVIDIA H100" of an option, as a map. A value may not contain a comma.
  std::map<std::string, std::string> List(const std::string& name) const;

 private:
  std::map<std::string, std::string> values_;
};

void RunTracee(const Args& args);
extern const char kTraceeName[];

#define TRACEE(name)                \
  const char kTraceeName[] = #name; \
  void RunTracee([[maybe_unused]] const Args& args)

// Prints "FAIL <program>: <text>" and ends this process at once, without exit handlers: after a
// failed check the driver's own clean-up might not return.
[[noreturn]] void Fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
// Ends the program with the exit code for "not on this machine".
[[noreturn]] void Skip(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Restarts this process's watchdog; alarms are not inherited by a forked child.
void ArmWatchdog(unsigned seconds = 120);

// ---- Checks.

template <typename T>
void PrintValue(std::ostream& out, const T& value) {
  if constexpr (std::is_enum_v<T>) {
    out << static_cast<long long>(value);  // NOLINT(google-runtime-int)
  } else if constexpr (sizeof(T) == 1 && std::is_integral_v<T>) {
    out << static_cast<int>(value);
  } else {
    out << value;
  }
}

template <typename A, typename B>
[[noreturn]] void FailCompare(const char* file, int line, const char* expression, const A& a,
                              const B& b) {
  std::ostringstream values;
  PrintValue(values, a);
  values << " and ";
  PrintValue(values, b);
  Fail("%s:%d: %s; they are %s", file, line, expression, values.str().c_str());
}

#define TRACEE_COMPARE(a, op, b)                                                      \
  do {                                                                                \
    const auto& check_a = (a);                                                        \
    const auto& check_b = (b);                                                        \
    if (!(check_a op check_b))                                                        \
      FailCompare(__FILE__, __LINE__, "wanted " #a " " #op " " #b, check_a, check_b); \
  } while (false)
#define CHECK_EQ(a, b) TRACEE_COMPARE(a, ==, b)
#define CHECK_NE(a, b) TRACEE_COMPARE(a, !=, b)
#define CHECK_LT(a, b) TRACEE_COMPARE(a, <, b)
#define CHECK_LE(a, b) TRACEE_COMPARE(a, <=, b)
#define CHECK_GT(a, b) TRACEE_COMPARE(a, >, b)
#define CHECK_GE(a, b) TRACEE_COMPARE(a, >=, b)
#define CHECK_TRUE(condition)                                                   \
  do {                                                                          \
    if (!(condition)) Fail("%s:%d: wanted %s", __FILE__, __LINE__, #condition); \
  } while (false)

// ---- Bytes.

using Bytes = std::vector<uint8_t>;

// Bytes that depend on the seed and on every bit of the position, so that a block copied to or from
// the wrong place, or an older content left behind, is seen.
void FillPattern(void* data, size_t size, uint64_t seed);
Bytes Pattern(size_t size, uint64_t seed);

// Fails with the first differing position and the number of differing bytes.
void CheckBytes(const void* got, const void* want, size_t size, const std::string& what);
// Reads device memory synchronously and compares.
void CheckDevice(CUdeviceptr device, const void* want, size_t size, const std::string& what);
void CheckDeviceFilled(CUdeviceptr device, uint8_t value, size_t size, const std::string& what);

// Sets device memory and waits: cuMemsetD8 alone returns early, and a non-blocking stream would not
// wait for it.
void SetDevice(CUdeviceptr device, uint8_t value, size_t size);

// A small deterministic generator: a failure can be repeated on any machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  size_t Below(size_t bound) { return Next() % bound; }

 private:
  uint64_t state_;
};

// Wall (or simulated) time of CLOCK_MONOTONIC.
double Seconds();

// ---- CUDA objects.

// Initialises CUDA and makes a context on a device current for this thread.
class Context {
 public:
  explicit Context(int ordinal = 0, unsigned flags = 0);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  CUcontext get() const { return context_; }
  CUdevice device() const { return device_; }
  int Attribute(CUdevice_attribute attribute) const;

 private:
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

class DeviceMemory {
 public:
  explicit DeviceMemory(size_t size);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  CUdeviceptr get() const { return pointer_; }
  size_t size() const { return size_; }

 private:
  CUdeviceptr pointer_ = 0;
  size_t size_;
};

// Page-locked host memory.
class PinnedMemory {
 public:
  explicit PinnedMemory(size_t size, unsigned flags = 0);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  template <typename T = uint8_t>
  T* as() const {
    return static_cast<T*>(pointer_);
  }
  // Unified addressing: the device sees it at the same address.
  CUdeviceptr device() const { return reinterpret_cast<CUdeviceptr>(pointer_); }
  size_t size() const { return size_; }

 private:
  void* pointer_ = nullptr;
  size_t size_;
};

class Stream {
 public:
  explicit Stream(unsigned flags = CU_STREAM_NON_BLOCKING);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CUstream get() const { return stream_; }
  void Synchronize() const;

 private:
  CUstream stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = CU_EVENT_DEFAULT);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  CUevent get() const { return event_; }

 private:
  CUevent event_ = nullptr;
};

// A gate in a stream that the host opens: what makes "not finished yet" a certainty in a test, with
// no kernel whose duration one would have to know.
class Gate {
 public:
  Gate() : word_(4) { *word_.as<volatile uint32_t>() = 0; }
  // Work queued on `stream` after this call waits for Open().
  void Close(CUstream stream);
  void Open();

 private:
  PinnedMemory word_;
  uint32_t round_ = 0;
};

// ---- Processes.

// Runs `body` in a forked child, which exits 0 when it returns, has its own watchdog and dies with
// this process. Fork before the first CUDA call: CUDA does not survive a fork.
pid_t ForkChild(const std::function<void()>& body);
// Waits for a child and fails unless it exited with 0.
void WaitForChild(pid_t child);

// A two-way channel to a forked child. Each side calls its Use function after the fork.
class Channel {
 public:
  Channel();
  void UseParentSide();
  void UseChildSide();
  void Send(const void* data, size_t size) const;
  void Receive(void* data, size_t size) const;
  template <typename T>
  void Put(const T& value) const {
    Send(&value, sizeof value);
  }
  template <typename T>
  T Take() const {
    T value;
    Receive(&value, sizeof value);
    return value;
  }
  void SendFd(int fd) const;
  int ReceiveFd() const;

 private:
  int ends_[2];
  int fd_ = -1;
};

// The importer runs in a child of its own; both have their side of one channel.
void RunExporterAndImporter(const std::function<void(Channel&)>& exporter,
                            const std::function<void(Channel&)>& importer);

// Resident memory of this process, bytes.
size_t ResidentBytes();

#endif  // PHANTORA_TEST_TRACEES_TRACEE_H_
