#include "trap/supervisor/call_dispatch.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trap/host/host_calls.h"
#include "trap/host/process_calls.h"
#include "trap/log.h"

namespace phantora {
namespace {

// What a device sees of a call.
class DeviceCall : public CallContext {
 public:
  DeviceCall(const TrappedCall& call, OpenFiles& files) : call_(call), files_(files) {}

  pid_t process() const override { return call_.process(); }
  const RemoteMemory& memory() const override { return call_.memory(); }
  int descriptor() const override { return call_.Int(call_.number() == SYS_mmap ? 4 : 0); }
  // By the calling thread: the first one may have ended, or have other descriptors.
  std::shared_ptr<DeviceFile> DeviceAt(int descriptor) override {
    return files_.Find(call_.thread(), descriptor);
  }
  absl::Status Replace(int descriptor, int file) override {
    return call_.Replace(descriptor, file);
  }
  absl::Status ReplaceByDevice(int descriptor, std::shared_ptr<DeviceFile> device) override {
    auto file = files_.Add(std::move(device), call_.process());
    if (!file.ok()) return file.status();
    return Replace(descriptor, file->get());
  }

 private:
  const TrappedCall& call_;
  OpenFiles& files_;
};

}  // namespace

CallDispatch::CallDispatch(const Options& options)
    : options_(options),
      members_(options.processes, getpid()),
      open_files_(options.epoll),
      tracees_(options.epoll, options.processes),
      path_calls_({.open_files = &open_files_,
                   .log = options.log,
                   .machine_lock = options.machine_lock,
                   .rank_nice = options.rank_nice,
                   .links = options.links,
                   .probe = options.probe,
                   .members = &members_}) {
  std::vector<in_addr> addresses;
  for (const VirtualHost& host : options.hosts) {
    if (host.pretends()) addresses.push_back(host.address);
  }
  if (!addresses.empty()) port_calls_.emplace(std::move(addresses));
}

void CallDispatch::Serve(const seccomp_notif& notification, NotifyListener& listener) {
  ++counters_.traps;
  const CallHandler handler = HandlerOf(notification.data.nr);
  std::optional<PathCalls::Paths> paths;
  if (handler == CallHandler::kPath) paths = PathCalls::Read(notification);
  const auto caller = tracees_.CallerOf(notification, listener);
  if (absl::IsNotFound(caller.status())) return;  // nobody is there to see an answer
  if (!caller.ok()) {
    options_.unknowns->Count("call whose process cannot be told", 0,
                             "made natively: " + std::string(caller.status().message()));
    return listener.ReplyContinue(notification.id);
  }
  const TrappedCall call(notification, **caller, listener);
  // (Calls about memory may be page sharing's own.)
  const bool ends_segment = options_.time != nullptr && handler != CallHandler::kMemory;
  if (ends_segment) options_.time->EndSegment(call);
  if (options_.turns != nullptr && options_.turns->Holds(call.process(), notification)) {
    if (options_.threads != nullptr) options_.threads->StandsUnserved(call.process());
    if (ends_segment) options_.time->LeaveCall(call);
    return;
  }
  if (options_.time != nullptr && options_.time->Holds(call, handler, notification)) {
    if (ends_segment) options_.time->LeaveCall(call);
    return;
  }
  if (options_.threads != nullptr) {
    options_.threads->Stopped(call.id(), call.process(), call.thread());
  }
  if (options_.time != nullptr) {
    options_.time->CallOf(call.process());
    if (handler == CallHandler::kPath && !paths) {
      options_.time->PathCall(call.process(), call.thread());
    } else {
      options_.time->Heard(call.process(), call.thread());
    }
    if (!IsAboutTime(handler)) options_.time->GoesOn(call.thread());
  }
  ServeBy(handler, call, paths);
  if (ends_segment) options_.time->LeaveCall(call);
}

bool CallDispatch::IsAboutTime(CallHandler handler) {
  return handler >= CallHandler::kProcess && handler <= CallHandler::kTimer;
}

void CallDispatch::ServeBy(CallHandler handler, const TrappedCall& call,
                           const std::optional<PathCalls::Paths>& paths) {
  bool served = true;
  switch (handler) {
    case CallHandler::kPath:
      served = paths.has_value();
      if (served) path_calls_.Serve(call, *paths, HostOf(call).files);
      break;
    case CallHandler::kDevice:
      if (!ServeStarterCall(call)) ServeDeviceCall(call);
      break;
    case CallHandler::kHost:
      served = RefusesChange(call, members_) || ServeHostCall(call, HostOf(call));
      break;
    case CallHandler::kChange:
      served = RefusesChange(call, members_);
      break;
    case CallHandler::kPort:
      if (options_.time != nullptr && call.number() == SYS_connect) options_.time->Connects(call);
      served = port_calls_ && port_calls_->Serve(call);
      break;
    case CallHandler::kMemory:
      served = options_.sharing != nullptr && options_.sharing->Serve(call);
      break;
    case CallHandler::kProcess:
    case CallHandler::kProgram:
    case CallHandler::kClock:
    case CallHandler::kSignal:
    case CallHandler::kStop:
    case CallHandler::kYield:
    case CallHandler::kWait:
    case CallHandler::kTransfer:
    case CallHandler::kTimer:
      served = options_.time != nullptr && options_.time->Serve(call);
      break;
    case CallHandler::kRefusal:
      // As where an administrator has switched it off: programs know that, and do without.
      if (!std::exchange(refused_, true)) {
        LogInfo(
            absl::StrCat(CallName(call.number()), " is refused: what it does could not be seen"));
      }
      return call.Error(ENOSYS);
    case CallHandler::kNone:
      served = false;
      break;
  }
  if (!served) call.Continue();
}

bool CallDispatch::ServeStarterCall(const TrappedCall& call) {
  if (call.number() != SYS_ioctl || call.Int(0) != -1) return false;
  Tracee& tracee = call.tracee();
  const auto rank = static_cast<uint32_t>(call.Word(2));
  if (rank >= options_.host_of_rank.size()) return false;
  if (call.Word(1) == kRankStarts && tracee.rank < 0 &&
      options_.processes->ParentOf(tracee.process) == command_) {
    tracee.rank = static_cast<int>(rank);
    tracee.host = options_.host_of_rank[rank];
  } else if (call.Word(1) == kRankEnded && tracee.process == command_) {
    options_.rank_ended(RankEnd::From(call.Word(2)));
  } else {
    return false;
  }
  call.Value(0);
  return true;
}

void CallDispatch::ServeDeviceCall(const TrappedCall& call) {
  DeviceCall context(call, open_files_);
  auto device = context.DeviceAt(context.descriptor());
  if (device == nullptr) return call.Continue();
  const bool is_mmap = call.number() == SYS_mmap;
  if (options_.time != nullptr) options_.time->DriverCall(call.process(), call.thread());
  int result = 0;
  {
    std::lock_guard lock(*options_.machine_lock);
    if (is_mmap) {
      result = device->Mmap(context,
                            {call.Word(0), call.Word(1), call.Word(2), call.Word(3), call.Word(5)});
    } else {
      ++counters_.ioctls;
      result = device->Ioctl(context, static_cast<uint32_t>(call.Word(1)), call.Address(2));
    }
    device.reset();  // under the lock: it may have been replaced, and die here
  }
  if (result >= 0 && is_mmap) return call.Continue();
  if (result >= 0 && options_.time != nullptr &&
      options_.time->HoldsAnswer(call, call.process(), result)) {
    return;
  }
  call.Result(result);
}

void CallDispatch::Ready(int descriptor) {
  if (const auto process = tracees_.Died(descriptor)) return ProcessDied(*process);
  std::lock_guard lock(*options_.machine_lock);
  const auto is_ending = [this](pid_t process) {
    return tracees_.Find(process) != nullptr && options_.processes->IsEnding(process);
  };
  open_files_.HungUp(descriptor, is_ending).reset();
}

void CallDispatch::ProcessDied(pid_t process) {
  ++counters_.processes;
  if (options_.time != nullptr) options_.time->ProcessDied(process);
  if (options_.turns != nullptr) options_.turns->ProcessDied(process);
  std::lock_guard lock(*options_.machine_lock);
  // First what works on the process's memory, then the memory.
  options_.process_died(process);
  open_files_.OwnerDied(process).clear();
  options_.log->Line(process, "process ended");
}

}  // namespace phantora
