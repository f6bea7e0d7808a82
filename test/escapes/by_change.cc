// Changes of a node that do not open it: the test looks afterwards whether the files are as before.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "test/escapes/way.h"

namespace phantora::escapes {
namespace {

using Change = std::function<long(const char* node)>;

// By its own name, and through a folder that is a link: that one, the supervisor does not follow.
// What they did shows in the file itself, so that success need not mean that it was reached.
void Add(const char* what, const Change& change, std::vector<Way>& ways) {
  for (const char* node : {kNode, kHidden}) {
    ways.push_back({std::string(what) + " " + node,
                    [=]() -> Outcome { return change(node) < 0 ? Error(errno) : "accepted"; }});
    ways.push_back({std::string(what) + " through a link " + node, [=]() -> Outcome {
                      const std::string link = "change-" + std::to_string(getpid());
                      if (symlink("/dev", link.c_str()) != 0) return Error(errno);
                      const std::string path = link + (node + 4);
                      const Outcome outcome = change(path.c_str()) < 0 ? Error(errno) : "accepted";
                      unlink(link.c_str());
                      return outcome;
                    }});
  }
}

}  // namespace

std::vector<Way> WaysByChange() {
  std::vector<Way> ways;
  Add(
      "truncate", [](const char* node) -> long { return truncate(node, 0); }, ways);
  Add(
      "chmod", [](const char* node) -> long { return chmod(node, 0); }, ways);
  Add(
      "chown", [](const char* node) -> long { return chown(node, 12345, 12345); }, ways);
  Add(
      "utimes",
      [](const char* node) -> long {
        const timeval times[2] = {{1, 0}, {1, 0}};
        return utimes(node, times);
      },
      ways);
  Add(
      "setxattr",
      [](const char* node) -> long { return setxattr(node, "trusted.phantora", "x", 1, 0); }, ways);
  Add(
      "chmod of an O_PATH descriptor",
      [](const char* node) -> long {
        const int file = open(node, O_PATH);
        if (file < 0) return -1;
        return chmod(("/proc/self/fd/" + std::to_string(file)).c_str(), 0);
      },
      ways);
  Add(
      "rename over",
      [](const char* node) -> long {
        const std::string own = "own-" + std::to_string(getpid());
        close(open(own.c_str(), O_CREAT | O_RDWR, 0600));
        return rename(own.c_str(), node);
      },
      ways);
  Add(
      "unlink", [](const char* node) -> long { return unlink(node); }, ways);
  return ways;
}

}  // namespace phantora::escapes
