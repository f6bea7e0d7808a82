// Names that change between the supervisor's look and the kernel's own.
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "test/escapes/way.h"

namespace phantora::escapes {
namespace {

constexpr int kSeconds = 10;

// `change` again and again in a thread, `look` in this one, for ten seconds.
Outcome Race(const std::function<void()>& change, const std::function<int()>& look) {
  std::atomic<bool> over = false;
  std::thread changer([&] {
    while (!over) change();
  });
  timespec begin{}, now{};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  Outcome outcome;
  long looks = 0;
  do {
    for (int i = 0; i < 20 && outcome != "reached"; ++i, ++looks) {
      const int file = look();
      if (file < 0) continue;
      if (Opened(file) == "reached") outcome = "reached";
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    // Simulated seconds may pass much faster than real ones, or slower.
  } while (outcome.empty() && looks < 100'000 && now.tv_sec - begin.tv_sec < kSeconds);
  over = true;
  changer.join();
  return outcome.empty() ? "never" : outcome;
}

Outcome ChangingName() {
  static char name[32] = "harmless";
  static const char kHarmless[] = "harmless\0\0\0\0";
  static_assert(sizeof kHarmless >= 13);
  close(open(kHarmless, O_CREAT | O_RDWR, 0600));
  return Race(
      [] {
        std::memcpy(name, kHidden, 13);
        std::memcpy(name, kHarmless, 13);
      },
      [] { return open(name, O_RDONLY); });
}

Outcome ChangingFolder() {
  static char name[32] = "/tmp/nvidia7";
  return Race(
      [] {
        std::memcpy(name, "/dev/", 5);
        std::memcpy(name, "/tmp/", 5);
      },
      [] { return open(name, O_RDONLY); });
}

Outcome ChangingLink() {
  const std::string link = "flips-" + std::to_string(getpid()), spare = link + "b";
  close(open("harmless", O_CREAT | O_RDWR, 0600));
  bool to_node = false;
  return Race(
      [&] {
        if (symlink(to_node ? kHidden : "harmless", spare.c_str()) != 0) return;
        rename(spare.c_str(), link.c_str());
        to_node = !to_node;
      },
      [&] { return open(link.c_str(), O_RDONLY); });
}

Outcome ChangingLinkedFolder() {
  const std::string link = "folder-" + std::to_string(getpid()), spare = link + "b";
  mkdir("own", 0700);
  close(open("own/nvidia7", O_CREAT | O_RDWR, 0600));
  bool to_node = false;
  return Race(
      [&] {
        if (symlink(to_node ? "/dev" : "own", spare.c_str()) != 0) return;
        rename(spare.c_str(), link.c_str());
        to_node = !to_node;
      },
      [&] { return open((link + "/nvidia7").c_str(), O_RDONLY); });
}

}  // namespace

std::vector<Way> WaysByRace() {
  return {{"a name that another thread changes", ChangingName},
          {"a folder's name that another thread changes", ChangingFolder},
          {"a link that another thread turns", ChangingLink},
          {"a linked folder that another thread turns", ChangingLinkedFolder}};
}

}  // namespace phantora::escapes
