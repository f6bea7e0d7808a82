// What a trapped call costs, in microseconds, as one line of JSON: the median over rounds of the
// mean of some hundred calls.
//
// usage: trapped_calls FILE
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

namespace {

double Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double Microseconds(const std::function<void()>& call) {
  constexpr int kRounds = 31, kCalls = 200;
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = Now();
    for (int i = 0; i < kCalls; ++i) call();
    rounds.push_back((Now() - begin) / kCalls);
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const char* const path = argv[1];
  const int device = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
  if (device < 0 || access(path, R_OK) != 0) {
    std::perror(device < 0 ? "/dev/nvidiactl" : path);
    return 1;
  }
  const double open_close = Microseconds([path] { close(open(path, O_RDONLY | O_CLOEXEC)); });
  const double status = Microseconds([path] {
    struct stat found {};
    syscall(SYS_newfstatat, AT_FDCWD, path, &found, 0);
  });
  // An escape of the driver's that is none: received, looked at, answered.
  const double driver =
      Microseconds([device] { ioctl(device, _IOC(_IOC_READ, 'F', 1, 16), nullptr); });
  const double native = Microseconds([] { syscall(SYS_getppid); });
  std::printf(
      "{\"open_close_us\": %.3f, \"stat_us\": %.3f, \"driver_us\": %.3f, \"native_us\": %.3f}\n",
      open_close, status, driver, native);
  return 0;
}
