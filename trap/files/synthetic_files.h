// Files that only the ranks see: device nodes, and the driver's entries under
// /proc and /sys.
#ifndef PHANTORA_TRAP_FILES_SYNTHETIC_FILES_H_
#define PHANTORA_TRAP_FILES_SYNTHETIC_FILES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trap/files/device_file.h"

namespace phantora {

class SyntheticFiles {
 public:
  using Opener = std::function<std::shared_ptr<DeviceFile>(pid_t process)>;

  struct Node {
    enum Type { kText, kDevice, kDirectory, kLink } type = kText;
    std::string text = {};  // kText: the content; kLink: the target
    unsigned major = 0, minor = 0;
    Opener open = {};  // kDevice
    // Different for each; not an address, and the same in every run.
    uint64_t inode = 0;
  };

  void AddText(std::string path, std::string content);
  void AddLink(std::string path, std::string target);
  void AddDevice(std::string path, unsigned major, unsigned minor, Opener open);
  void AddDirectory(std::string path);
  // Stands for every file of the host that has the name of this shared library ("libx.so.2"), or
  // that name with more of its version ("libx.so.2.27"), wherever it is.
  void ReplaceLibrary(std::string name, std::string content);
  // Whatever lies at or below `prefix` and was not added does not exist, even if
  // the host has it: ranks must not meet a real driver.
  void Hide(std::string prefix);

  enum class Verdict {
    kHost,
    kAbsent,
    kSynthetic,
    kReplaced,  // opens `node` if the host has such a file
  };
  struct Lookup {
    Verdict verdict;
    const Node* node;  // when kSynthetic or kReplaced
  };
  // `path` is absolute and normalised.
  Lookup Find(std::string_view path) const;

  // `path` after the links that were added and that it goes through, and with `last` the one that
  // it ends in. nullopt: they go round in a circle.
  std::optional<std::string> Follow(std::string_view path, bool last) const;

  // What was added directly below the directory `path`: names and types.
  std::vector<std::pair<std::string, Node::Type>> Entries(std::string_view path) const;

  // Could a path that contains this be ours? A cheap test before resolving it.
  static bool Interesting(std::string_view path);
  // Removes "//", "/./" and "/../" textually from an absolute path.
  static std::string Normalise(std::string_view path);

 private:
  void Add(std::string path, Node node);
  std::map<std::string, Node, std::less<>> nodes_;
  std::map<std::string, Node, std::less<>> libraries_;  // by name
  std::vector<std::string> hidden_;
  uint64_t last_inode_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_FILES_SYNTHETIC_FILES_H_
