#include "tools/profiler/replay_worker.h"

#include <sys/personality.h>
#include <unistd.h>

#include <iostream>
#include <map>
#include <string>

#include "profiles/kernels/launch_request.h"
#include "tools/profiler/kernel_replay.h"
#include "tools/profiler/replay_result.h"

namespace phantora {

int RunReplayWorker(uint64_t pool_bytes) {
  auto replay = KernelReplay::Create(pool_bytes);
  if (!replay.ok()) {
    std::cout << RefusalLine(replay.status().message()) << std::endl;
    return 1;
  }
  std::cout << ToLine((*replay)->gpu()) << std::endl;
  std::map<uint64_t, std::string> bad_images;
  for (std::string text; std::getline(std::cin, text);) {
    const auto line = ParseRequestLine(text);
    if (!line.ok()) {
      std::cerr << "phantora-profile: " << line.status().message() << std::endl;
      return 1;
    }
    if (line->image) {
      const auto status = (*replay)->Load(line->image->id, line->image->cubin);
      if (!status.ok()) bad_images[line->image->id] = std::string(status.message());
      continue;
    }
    if (!line->request) continue;
    const LaunchRequest& request = *line->request;
    ReplayResult result = {.launch = request.id, .time = {}, .failed = "", .gave_up = false};
    const auto bad = request.image ? bad_images.find(*request.image) : bad_images.end();
    if (bad != bad_images.end()) {
      result.failed = bad->second;
    } else if (auto time = (*replay)->Measure(request); time.ok()) {
      result.time = *time;
    } else {
      result.failed = std::string(time.status().message());
      result.gave_up = !(*replay)->Works();
    }
    std::cout << ToLine(result) << std::endl;
    if (result.gave_up) return 1;
  }
  return 0;
}

void MoveOutOfTheWay(char** argv) {
  // GPU memory lies where mmap() puts things, below the stack. In the old layout libraries lie at
  // a third of the address space, and above them it is empty.
  constexpr unsigned long kWanted =
      ADDR_COMPAT_LAYOUT | ADDR_NO_RANDOMIZE;  // NOLINT(google-runtime-int)
  const int now = personality(0xffffffff);
  if (now < 0 || (static_cast<unsigned>(now) & kWanted) == kWanted) return;
  if (personality(static_cast<unsigned>(now) | kWanted) < 0) return;
  execv("/proc/self/exe", argv);
}

}  // namespace phantora
