#include "test/tracees/tracee.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "test/support/descriptors.h"

namespace {

void OnAlarm(int) {
  // Only async-signal-safe calls: the main thread may hold any lock.
  static const char kBefore[] = "FAIL ";
  static const char kAfter[] = ": the watchdog's time is over\n";
  (void)!write(STDERR_FILENO, kBefore, sizeof kBefore - 1);
  (void)!write(STDERR_FILENO, kTraceeName, strlen(kTraceeName));
  (void)!write(STDERR_FILENO, kAfter, sizeof kAfter - 1);
  _exit(124);
}

void PrintLine(const char* verdict, const char* format, va_list arguments) {
  fflush(stdout);
  // One write per line keeps the messages of several processes apart.
  char text[4096];
  vsnprintf(text, sizeof text, format, arguments);
  fprintf(stderr, "%s %s: %s\n", verdict, kTraceeName, text);
  fflush(stderr);
}

uint64_t Mix(uint64_t value) {
  value ^= value >> 31;
  value *= 0x7fb5d329728ea185ull;
  value ^= value >> 27;
  value *= 0x81dadef4bc2dd44dull;
  value ^= value >> 33;
  return value;
}

}  // namespace

Args::Args(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word.compare(0, 2, "--") != 0) Fail("unexpected argument %s", argv[i]);
    word = word.substr(2);
    const size_t equals = word.find('=');
    if (equals != std::string::npos) {
      values_[word.substr(0, equals)] = word.substr(equals + 1);
    } else if (i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0) {
      values_[word] = argv[++i];
    } else {
      values_[word] = "";
    }
  }
}

std::string Args::Get(const std::string& name, const std::string& otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second;
}

long Args::Number(const std::string& name, long otherwise) const {  // NOLINT(google-runtime-int)
  return Has(name) ? strtol(Get(name).c_str(), nullptr, 0) : otherwise;
}

std::map<std::string, std::string> Args::List(const std::string& name) const {
  std::map<std::string, std::string> list;
  std::istringstream items(Get(name));
  std::string item;
  while (std::getline(items, item, ',')) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos) Fail("--%s: '%s' has no '='", name.c_str(), item.c_str());
    list[item.substr(0, equals)] = item.substr(equals + 1);
  }
  return list;
}

void Fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PrintLine("FAIL", format, arguments);
  va_end(arguments);
  _exit(1);
}

void Skip(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PrintLine("SKIP", format, arguments);
  va_end(arguments);
  _exit(kExitSkipped);
}

void ArmWatchdog(unsigned seconds) {
  signal(SIGALRM, OnAlarm);
  alarm(seconds);
}

void FillPattern(void* data, size_t size, uint64_t seed) {
  auto* bytes = static_cast<uint8_t*>(data);
  const uint64_t base = Mix(seed + 1);
  size_t at = 0;
  for (uint64_t word = 0; at < size; ++word) {
    const uint64_t value = Mix(base + word);
    const size_t step = size - at < 8 ? size - at : 8;
    memcpy(bytes + at, &value, step);
    at += step;
  }
}

Bytes Pattern(size_t size, uint64_t seed) {
  Bytes bytes(size);
  FillPattern(bytes.data(), size, seed);
  return bytes;
}

void CheckBytes(const void* got, const void* want, size_t size, const std::string& what) {
  if (size == 0 || memcmp(got, want, size) == 0) return;
  const auto* g = static_cast<const uint8_t*>(got);
  const auto* w = static_cast<const uint8_t*>(want);
  size_t first = size;
  size_t wrong = 0;
  for (size_t i = 0; i < size; ++i) {
    if (g[i] == w[i]) continue;
    if (first == size) first = i;
    ++wrong;
  }
  Fail("%s: %zu of %zu bytes are wrong; the first is byte %zu: 0x%02x, not 0x%02x", what.c_str(),
       wrong, size, first, g[first], w[first]);
}

void CheckDevice(CUdeviceptr device, const void* want, size_t size, const std::string& what) {
  // Start from bytes that differ everywhere: a copy that does nothing must not look right.
  Bytes got(size);
  for (size_t i = 0; i < size; ++i) {
    got[i] = static_cast<uint8_t>(~static_cast<const uint8_t*>(want)[i]);
  }
  CU_CHECK(cuMemcpyDtoH(got.data(), device, size));
  CheckBytes(got.data(), want, size, what);
}

void CheckDeviceFilled(CUdeviceptr device, uint8_t value, size_t size, const std::string& what) {
  CheckDevice(device, Bytes(size, value).data(), size, what);
}

void SetDevice(CUdeviceptr device, uint8_t value, size_t size) {
  CU_CHECK(cuMemsetD8(device, value, size));
  CU_CHECK(cuCtxSynchronize());
}

uint64_t Random::Next() {
  state_ += 0x9e3779b97f4a7c15ull;
  return Mix(state_);
}

double Seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Context::Context(int ordinal, unsigned flags) {
  CU_CHECK(cuInit(0));
  CU_CHECK(cuDeviceGet(&device_, ordinal));
  CU_CHECK(cuCtxCreate(&context_, flags, device_));
}

Context::~Context() { CU_CHECK(cuCtxDestroy(context_)); }

int Context::Attribute(CUdevice_attribute attribute) const {
  int value = -1;
  CU_CHECK(cuDeviceGetAttribute(&value, attribute, device_));
  return value;
}

DeviceMemory::DeviceMemory(size_t size) : size_(size) { CU_CHECK(cuMemAlloc(&pointer_, size)); }
DeviceMemory::~DeviceMemory() { CU_CHECK(cuMemFree(pointer_)); }

PinnedMemory::PinnedMemory(size_t size, unsigned flags) : size_(size) {
  CU_CHECK(cuMemHostAlloc(&pointer_, size, flags));
}
PinnedMemory::~PinnedMemory() { CU_CHECK(cuMemFreeHost(pointer_)); }

Stream::Stream(unsigned flags) { CU_CHECK(cuStreamCreate(&stream_, flags)); }
Stream::~Stream() { CU_CHECK(cuStreamDestroy(stream_)); }
void Stream::Synchronize() const { CU_CHECK(cuStreamSynchronize(stream_)); }

Event::Event(unsigned flags) { CU_CHECK(cuEventCreate(&event_, flags)); }
Event::~Event() { CU_CHECK(cuEventDestroy(event_)); }

void Gate::Close(CUstream stream) {
  CU_CHECK(cuStreamWaitValue32(stream, word_.device(), ++round_, CU_STREAM_WAIT_VALUE_GEQ));
}

void Gate::Open() { __atomic_store_n(word_.as<uint32_t>(), round_, __ATOMIC_SEQ_CST); }

pid_t ForkChild(const std::function<void()>& body) {
  fflush(stdout);
  fflush(stderr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) Fail("fork: %s", strerror(errno));
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // The parent died before the line above.
  ArmWatchdog();
  body();
  fflush(stdout);
  // exit, not _exit: the driver's exit handlers are part of what is tested.
  exit(0);
}

void WaitForChild(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) Fail("waitpid: %s", strerror(errno));
  }
  if (WIFSIGNALED(status)) Fail("a child was killed by signal %d", WTERMSIG(status));
  if (!WIFEXITED(status)) Fail("a child ended with status 0x%x", static_cast<unsigned>(status));
  if (WEXITSTATUS(status) == kExitSkipped) _exit(kExitSkipped);
  if (WEXITSTATUS(status) != 0) Fail("a child exited with %d", WEXITSTATUS(status));
}

Channel::Channel() {
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends_) != 0) Fail("socketpair: %s", strerror(errno));
}

void Channel::UseParentSide() {
  fd_ = ends_[0];
  close(ends_[1]);
}

void Channel::UseChildSide() {
  fd_ = ends_[1];
  close(ends_[0]);
}

void Channel::Send(const void* data, size_t size) const {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = send(fd_, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) Fail("the other process is gone (send: %s)", strerror(errno));
    bytes += sent;
    size -= static_cast<size_t>(sent);
  }
}

void Channel::Receive(void* data, size_t size) const {
  auto* bytes = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = recv(fd_, bytes, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) Fail("the other process is gone");
    bytes += got;
    size -= static_cast<size_t>(got);
  }
}

void Channel::SendFd(int fd) const {
  const char byte = 'F';
  if (SendWithDescriptor(fd_, &byte, 1, fd, MSG_NOSIGNAL) != 1) {
    Fail("sendmsg: %s", strerror(errno));
  }
}

int Channel::ReceiveFd() const {
  char byte = 0;
  int fd = -1;
  if (ReceiveWithDescriptor(fd_, &byte, 1, &fd, 0) != 1) Fail("recvmsg: %s", strerror(errno));
  if (fd < 0) Fail("no descriptor was sent");
  return fd;
}

void RunExporterAndImporter(const std::function<void(Channel&)>& exporter,
                            const std::function<void(Channel&)>& importer) {
  Channel channel;
  const pid_t child = ForkChild([&] {
    channel.UseChildSide();
    importer(channel);
  });
  channel.UseParentSide();
  exporter(channel);
  WaitForChild(child);
}

size_t ResidentBytes() {
  FILE* file = fopen("/proc/self/statm", "r");
  size_t total = 0;
  size_t resident = 0;
  if (file == nullptr || fscanf(file, "%zu %zu", &total, &resident) != 2) Fail("/proc/self/statm");
  fclose(file);
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const Args args(argc, argv);
  ArmWatchdog(static_cast<unsigned>(args.Number("watchdog", 120)));
  // The JIT must work each time, and the user's compute cache stays as it is.
  setenv("CUDA_CACHE_DISABLE", "1", 0);
  LoadCudaDriver();
  RunTracee(args);
  printf("PASS %s\n", kTraceeName);
  return 0;
}
