// A machine of two GPUs, and a process that calls its driver: for tests of what answers.
#ifndef PHANTORA_TRAP_RM_FAKE_MACHINE_H_
#define PHANTORA_TRAP_RM_FAKE_MACHINE_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clock/time_source.h"
#include "profiles/gpu/gpu_profile.h"
#include "trap/files/device_file.h"
#include "trap/linux/fake_memory.h"
#include "trap/rm/machine.h"
#include "trap/rm/rm_alloc.h"

namespace phantora {

// Descriptors are what the test says they are.
class FakeCall : public CallContext {
 public:
  explicit FakeCall(pid_t process) : process_(process) {}

  pid_t process() const override { return process_; }
  const FakeMemory& memory() const override { return memory_; }
  int descriptor() const override { return 3; }
  std::shared_ptr<DeviceFile> DeviceAt(int descriptor) override {
    const auto it = devices.find(descriptor);
    return it == devices.end() ? nullptr : it->second;
  }
  absl::Status Replace(int descriptor, int) override {
    devices.erase(descriptor);
    return absl::OkStatus();
  }
  absl::Status ReplaceByDevice(int descriptor, std::shared_ptr<DeviceFile> device) override {
    devices[descriptor] = std::move(device);
    return absl::OkStatus();
  }

  // Another process makes the next calls, with the same memory.
  void set_process(pid_t process) { process_ = process; }

  std::map<int, std::shared_ptr<DeviceFile>> devices;

 private:
  pid_t process_;
  const FakeMemory memory_;
};

// GPUs are not run: nothing that is submitted ends.
struct FakeMachine {
  FakeMachine(const std::string& gpu, DriverAbi abi)
      : machine{.profile = *FindGpuProfile(gpu),
                .driver = {absl::StrCat(static_cast<int>(abi), ".1"), abi},
                .gpus = {},
                .events = &events,
                .scheduler = &scheduler,
                .services = &services,
                .log = &log,
                .unknowns = &unknowns,
                .quiet = &quiet,
                .pages = std::make_shared<PageStore>(uint64_t{1} << 30)} {
    machine.gpus = Machine::MakeGpus(machine.profile, 2);
  }

  RealTimeSource time;
  OsEvents events{&time};
  FixedPricer pricer{VirtualSpan()};
  CallLog log;
  Unknowns unknowns;
  QuietSuccesses quiet;
  GpuServices services{&time, &events, &pricer, nullptr, &log, &unknowns, {}};
  TurnLock lock;
  GpuScheduler scheduler{&lock, &services, [] { return false; }};
  Machine machine;
  ResourceManager rm{.machine = &machine, .server = {}};
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_FAKE_MACHINE_H_
