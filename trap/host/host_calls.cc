#include "trap/host/host_calls.h"

#include <sched.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace phantora {
namespace {

// Masks are longs. More of them than this are cut off: the kernel has at most 8192 processors.
constexpr uint64_t kMostMaskBytes = 1024;

int Uname(const TrappedCall& call, RemoteAddress to, const VirtualHost& host) {
  utsname names{};
  uname(&names);
  std::memset(names.nodename, 0, sizeof names.nodename);
  host.name.copy(names.nodename, sizeof names.nodename - 1);
  return call.memory().WriteObject(to, names) ? 0 : -EFAULT;
}

int SysInfo(const TrappedCall& call, RemoteAddress to, const VirtualHost& host) {
  struct sysinfo info {};
  sysinfo(&info);
  const uint64_t unit = std::max(info.mem_unit, 1u);
  info.totalram = host.memory_bytes / unit;
  // A training host's memory is nearly free when the job begins.
  info.freeram = info.totalram - info.totalram / 16;
  info.bufferram = info.sharedram = info.totalswap = info.freeswap = 0;
  return call.memory().WriteObject(to, info) ? 0 : -EFAULT;
}

int GetAffinity(const TrappedCall& call, uint64_t bytes, RemoteAddress to,
                const VirtualHost& host) {
  const uint64_t needed = (static_cast<uint64_t>(host.cores) + 63) / 64 * 8;
  if (bytes < needed || bytes % 8 != 0) return -EINVAL;
  std::vector<uint8_t> mask(needed, 0);
  for (int core = 0; core < host.cores; ++core) mask[core / 8] |= 1 << core % 8;
  return call.memory().Write(to, mask.data(), mask.size()) ? static_cast<int>(needed) : -EFAULT;
}

int SetAffinity(const TrappedCall& call, uint64_t bytes, RemoteAddress from,
                const VirtualHost& host) {
  std::vector<uint8_t> mask(std::min(bytes, kMostMaskBytes));
  if (!call.memory().Read(from, mask.data(), mask.size())) return -EFAULT;
  for (int core = 0; core < host.cores && core / 8 < static_cast<int>(mask.size()); ++core) {
    if ((mask[core / 8] >> core % 8 & 1) != 0) return 0;
  }
  return -EINVAL;
}

}  // namespace

bool ServeHostCall(const TrappedCall& call, const VirtualHost& host) {
  int result;
  switch (call.number()) {
    case SYS_uname:
    case SYS_sysinfo:
    case SYS_sched_getaffinity:
    case SYS_sched_setaffinity:
      break;
    default:
      return false;
  }
  if (!host.pretends()) {
    call.Continue();
    return true;
  }
  switch (call.number()) {
    case SYS_uname:
      result = Uname(call, call.Address(0), host);
      break;
    case SYS_sysinfo:
      result = SysInfo(call, call.Address(0), host);
      break;
    case SYS_sched_getaffinity:
      result = GetAffinity(call, call.Word(1), call.Address(2), host);
      break;
    default:
      result = SetAffinity(call, call.Word(1), call.Address(2), host);
      break;
  }
  call.Result(result);
  return true;
}

}  // namespace phantora
