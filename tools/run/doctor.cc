#include "tools/run/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/run/driver_libraries.h"
#include "trap/gpu/front/kernel_execution.h"
#include "trap/gpu/products/blas.h"
#include "trap/launch/device_wall.h"
#include "trap/launch/launcher.h"
#include "trap/linux/filter_policy.h"
#include "trap/linux/kernel_features.h"
#include "trap/linux/remote_memory.h"
#include "trap/linux/vdso.h"

namespace phantora {
namespace {

enum class Outcome { kGood, kSlower, kMissing };

class Doctor {
 public:
  void Say(Outcome outcome, const std::string& what, const std::string& advice = "") {
    const char* mark = outcome == Outcome::kGood     ? "ok      "
                       : outcome == Outcome::kSlower ? "limited "
                                                     : "MISSING ";
    printf("%s%s\n", mark, what.c_str());
    if (outcome != Outcome::kGood && !advice.empty()) printf("        -> %s\n", advice.c_str());
    if (outcome == Outcome::kMissing) healthy_ = false;
  }
  bool healthy() const { return healthy_; }

 private:
  bool healthy_ = true;
};

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void CheckKernel(Doctor& doctor) {
  utsname name;
  uname(&name);
  const std::string kernel = absl::StrCat("Linux ", name.release);
  const KernelVersion version = KernelVersion::Of(name.release);
  if (version < kLeastKernel) {
    doctor.Say(Outcome::kMissing, kernel,
               absl::StrCat("SECCOMP_ADDFD_FLAG_SEND needs ", kLeastKernel.text()));
  } else if (version < kSyncWakeUpKernel) {
    doctor.Say(Outcome::kSlower, kernel,
               absl::StrCat("from ", kSyncWakeUpKernel.text(),
                            " on a driver call wakes its caller on the same CPU: 6 us, not 70"));
  } else {
    doctor.Say(Outcome::kGood, kernel);
  }
}

// What keeps the command from the machine's own GPUs.
void CheckWall(Doctor& doctor) {
  const auto devices = DeviceWall::RealDevices();
  const auto wall = DeviceWall::Build(devices);
  if (!wall.ok()) {
    doctor.Say(Outcome::kSlower,
               absl::StrCat("no wall around real GPUs: ", std::string(wall.status().message())),
               absl::StrCat("Landlock of Linux ", kWallKernel.text(),
                            " or newer (CONFIG_SECURITY_LANDLOCK, \"landlock\" among the kernel's "
                            "lsm=) keeps the command from them; without it, names do"));
  } else if (!wall->keeps_signals()) {
    doctor.Say(Outcome::kSlower, "real GPUs are behind a wall (Landlock)",
               absl::StrCat("from Linux ", kSignalScopeKernel.text(),
                            " on signals to processes outside the run are, too"));
  } else if (const int error = wall->TryHiding(); getuid() == 0 && error != 0) {
    doctor.Say(Outcome::kSlower, "real GPUs are behind a wall (Landlock)",
               absl::StrCat("their nodes cannot be hidden from root (", std::strerror(error),
                            "), who can change their modes and remove them, if not open them; run "
                            "as an ordinary user, or in a container with --cap-add SYS_ADMIN and "
                            "an AppArmor profile that lets it mount"));
  } else {
    doctor.Say(Outcome::kGood, absl::StrCat("real GPUs (", devices.size(),
                                            " files here) and other processes are "
                                            "behind a wall (Landlock)"));
  }
}

// The whole trap in small: a filter, a listener, a served call, tracee memory.
void CheckTrap(Doctor& doctor) {
  auto filter = BuildFilter();
  if (!filter.ok()) {
    doctor.Say(Outcome::kMissing, "seccomp filter", std::string(filter.status().message()));
    return;
  }
  auto child = Launch(*filter, {.command = {"/bin/true"}, .environment = {}});
  if (!child.ok()) {
    doctor.Say(Outcome::kMissing, "seccomp user notification",
               absl::StrCat(std::string(child.status().message()),
                            "; a container needs a seccomp profile that allows seccomp(2)"));
    return;
  }
  doctor.Say(Outcome::kGood, "seccomp user notification");
  bool read_memory = false;
  // The first trapped call is the dynamic loader's look-up of a path.
  if (auto notification = child->listener->Receive()) {
    RemoteMemory memory(static_cast<pid_t>(notification->pid));
    const int argument = notification->data.nr == SYS_openat ? 1 : 0;
    read_memory =
        memory.ReadString(RemoteAddress{notification->data.args[argument]}, 4096).has_value();
    child->listener->ReplyContinue(notification->id);
  }
  kill(child->pid, SIGKILL);
  waitpid(child->pid, nullptr, 0);
  const std::string yama = FirstLine("/proc/sys/kernel/yama/ptrace_scope");
  doctor.Say(read_memory ? Outcome::kGood : Outcome::kMissing,
             absl::StrCat("memory of own child processes",
                          yama.empty() ? "" : absl::StrCat(" (Yama ptrace_scope ", yama, ")")),
             "set kernel.yama.ptrace_scope to 0 or 1, or allow process_vm_readv in the "
             "container's seccomp profile");
}

// What --host-time needs: clock reads of a stopped process redirected, and copies of its
// descriptors.
void CheckSimulatedTime(Doctor& doctor) {
  auto filter = BuildFilter({.simulated_time = true});
  if (!filter.ok()) return;  // CheckTrap has said so
  auto child = Launch(*filter, {.command = {"/bin/true"}, .environment = {}});
  if (!child.ok()) return;
  absl::Status redirected = absl::UnavailableError("no call was trapped");
  bool copied = false;
  if (child->listener->Receive()) {
    auto vdso = Vdso::Create();
    redirected = vdso.ok() ? vdso->Redirect(child->pid) : vdso.status();
    const int copy = static_cast<int>(syscall(SYS_pidfd_getfd, child->pidfd.get(), 0, 0));
    copied = copy >= 0 || errno == EBADF;  // it may have closed its standard input
    if (copy >= 0) close(copy);
  }
  kill(child->pid, SIGKILL);
  waitpid(child->pid, nullptr, 0);
  doctor.Say(redirected.ok() ? Outcome::kGood : Outcome::kSlower, "simulated clocks",
             absl::StrCat(std::string(redirected.message()),
                          "; programs would read real clocks. Writing to /proc/PID/mem must be "
                          "allowed (kernel option proc_mem.force_override=always or ptrace)"));
  doctor.Say(copied ? Outcome::kGood : Outcome::kSlower, "simulated timeouts of poll and select",
             "pidfd_getfd is denied (Docker's default profile does), so that these time out in "
             "real time: run the container with --cap-add SYS_PTRACE");
}

void CheckMemory(Doctor& doctor) {
  const int fd = memfd_create("phantora-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  RaiseLimits();             // as a run does
  signal(SIGXFSZ, SIG_IGN);  // too long is an error
  const bool huge = fd >= 0 && ftruncate(fd, off_t{1} << 47) == 0;
  doctor.Say(huge ? Outcome::kGood : Outcome::kMissing, "sparse memory files of 128 TiB",
             "memfd_create or ftruncate failed; is a file size limit (ulimit -Hf) set?");
  if (fd >= 0) close(fd);
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  doctor.Say(descriptors.rlim_max >= 65536 ? Outcome::kGood : Outcome::kSlower,
             absl::StrFormat("%d descriptors", descriptors.rlim_max),
             "a rank needs some hundred; raise 'ulimit -Hn' for many ranks");
}

void CheckDrivers(Doctor& doctor) {
  const auto cached = CachedDriverVersions();
  auto found = FindDriverLibraries("auto", false);
  if (found.ok()) {
    doctor.Say(Outcome::kGood,
               absl::StrCat(
                   "driver libraries ", found->version.text, " in ", found->library_directory,
                   found->installed ? " (installed)" : "",
                   cached.empty() ? "" : absl::StrCat("; cached: ", absl::StrJoin(cached, ", "))));
  } else {
    doctor.Say(Outcome::kMissing, "driver libraries", std::string(found.status().message()));
  }
}

}  // namespace

void CheckExecution(Doctor& doctor) {
  if (!KernelExecution::IsPossible()) {
    doctor.Say(Outcome::kSlower, "kernels are not executed",
               "that needs a processor with AVX2, FMA, F16C and BMI2; times are the same without");
    return;
  }
  std::string why;
  if (const auto blas = Blas::Load(why)) {
    doctor.Say(Outcome::kGood,
               absl::StrCat("kernels are executed; with --execute all products by ", blas->name()));
  } else {
    doctor.Say(Outcome::kSlower,
               "kernels are executed, with --execute all products by their own code",
               absl::StrCat("install libopenblas0-pthread: many times as fast (", why, ")"));
  }
}

int RunDoctor() {
  Doctor doctor;
  CheckKernel(doctor);
  CheckTrap(doctor);
  CheckWall(doctor);
  CheckSimulatedTime(doctor);
  CheckMemory(doctor);
  CheckExecution(doctor);
  CheckDrivers(doctor);
  printf("%s\n", doctor.healthy() ? "This machine can run Phantora."
                                  : "Phantora cannot run here before the above is changed.");
  return doctor.healthy() ? 0 : 1;
}

}  // namespace phantora
