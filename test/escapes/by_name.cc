// Names, links and folders that lead to a node.
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "test/escapes/way.h"

namespace phantora::escapes {
namespace {

std::string Own(const char* name) { return std::string(name) + "-" + std::to_string(getpid()); }

Outcome ThroughLink(const std::string& to, const std::string& then, int flags) {
  const std::string link = Own("link");
  if (symlink(to.c_str(), link.c_str()) != 0) return Error(errno);
  const Outcome outcome = Opened(open((link + then).c_str(), flags, 0600));
  unlink(link.c_str());
  return outcome;
}

Outcome ThroughHardLink(const char* node) {
  const std::string link = Own("hard");
  if (link.empty() || ::link(node, link.c_str()) != 0) return Error(errno);
  const Outcome outcome = Opened(open(link.c_str(), O_RDONLY));
  unlink(link.c_str());
  return outcome;
}

Outcome Relative(const char* folder, const char* name) {
  const int directory = open(folder, O_RDONLY | O_DIRECTORY);
  if (directory < 0) return Error(errno);
  return Opened(openat(directory, name, O_RDONLY));
}

Outcome FromWorkingDirectory(const char* folder, const char* name) {
  if (chdir(folder) != 0) return Error(errno);
  return Opened(open(name, O_RDONLY));
}

Outcome FromRoot(const char* name) {
  if (chroot("/dev") != 0) return Error(errno);
  return Opened(open(name, O_RDONLY));
}

Outcome OpenAt2(const char* node) {
  open_how how{};
  how.flags = O_RDONLY;
  return Opened(static_cast<int>(syscall(SYS_openat2, AT_FDCWD, node, &how, sizeof how)));
}

Outcome Renamed() {
  const std::string name = Own("moved");
  if (rename(kHidden, name.c_str()) != 0) return Error(errno);
  return Opened(open(name.c_str(), O_RDONLY));
}

}  // namespace

std::vector<Way> WaysByName() {
  std::vector<Way> ways;
  for (const char* node : {kNode, kHidden, "/dev/nvidiactl", "/dev/nvidia-uvm"}) {
    const std::string name = node;
    const auto add = [&](const char* what, std::function<Outcome()> take) {
      ways.push_back({what + (" " + name), std::move(take)});
    };
    add("open", [=] { return Opened(open(node, O_RDONLY)); });
    add("open to write", [=] { return Opened(open(node, O_RDWR)); });
    add("open with O_CREAT", [=] { return Opened(open(node, O_RDWR | O_CREAT, 0600)); });
    add("creat", [=] { return Opened(creat(node, 0600)); });
    add("symbolic link to", [=] { return ThroughLink(name, "", O_RDONLY); });
    add("symbolic link with O_CREAT to", [=] { return ThroughLink(name, "", O_RDWR | O_CREAT); });
    add("linked folder of", [=] { return ThroughLink("/dev", name.substr(4), O_RDONLY); });
    add("link through /proc to",
        [=] { return ThroughLink("/proc/self/root/dev", name.substr(4), O_RDONLY); });
    add("hard link to", [=] { return ThroughHardLink(node); });
    add("relative", [=] { return Relative("/dev", node + 5); });
    add("from /dev", [=] { return FromWorkingDirectory("/dev", node + 5); });
    add("many slashes", [=] { return Opened(open(("//dev/.//" + name.substr(5)).c_str(), 0)); });
    add("dots", [=] { return Opened(open(("/proc/../dev/shm/../" + name.substr(5)).c_str(), 0)); });
    add("/proc/self/root", [=] { return Opened(open(("/proc/self/root" + name).c_str(), 0)); });
    add("a task's root", [=] {
      const std::string task = "/proc/self/task/" + std::to_string(gettid());
      return Opened(open((task + "/root" + name).c_str(), 0));
    });
    add("the parent's root", [=] {
      return Opened(open(("/proc/" + std::to_string(getppid()) + "/root" + name).c_str(), 0));
    });
    add("init's root", [=] { return Opened(open(("/proc/1/root" + name).c_str(), 0)); });
    add("others' root", [=] {
      return ForOthers([&](pid_t other) -> long {
        const std::string path = "/proc/" + std::to_string(other) + "/root" + name;
        const int file = open(path.c_str(), O_RDONLY);
        if (file < 0) return -1;
        // By its name it may be the emulated one.
        const bool reached = Opened(file) == "reached";
        errno = EEXIST;
        return reached ? 0 : -1;
      });
    });
    add("openat2", [=] { return OpenAt2(node); });
    add("chroot", [=] { return FromRoot(node + 4); });
  }
  ways.push_back({"rename a node", Renamed});
  // Registers and memory of a real GPU, which root can map.
  for (const char* device : {"/sys/bus/pci/devices/0000:77:00.0", "/sys/devices/0000:77:00.0"}) {
    for (const char* file : {"/resource0", "/resource1_wc", "/config", "/rom"}) {
      const std::string name = std::string(device) + file;
      ways.push_back({"open " + name, [=] { return Opened(open(name.c_str(), O_RDONLY)); }});
      ways.push_back({"open to write " + name, [=] { return Opened(open(name.c_str(), O_RDWR)); }});
      ways.push_back({"link to " + name, [=] { return ThroughLink(name, "", O_RDONLY); }});
      ways.push_back({"relative " + name, [=] { return Relative("/sys", name.c_str() + 5); }});
    }
  }
  return ways;
}

}  // namespace phantora::escapes
