#include "tools/run/setup.h"

#include <errno.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace phantora {
namespace {

constexpr int kCannotSetUp = 125;
// Of the folder that phantora-run is in; tools/package/wheel.py puts it there.
constexpr char kScript[] = "../share/phantora/setup.sh";

// Empty if there is none.
std::string Script() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "";
  const std::string script = (self.parent_path() / kScript).lexically_normal().string();
  return access(script.c_str(), R_OK) == 0 ? script : "";
}

}  // namespace

std::string SetupCommand() {
  return Script().empty() ? "tools/setup.sh drivers" : "phantora-run setup";
}

int RunSetup(const std::vector<std::string>& versions) {
  const std::string script = Script();
  if (script.empty()) {
    std::fputs(
        "phantora-run: this one was built from source, not installed as a package: tools/setup.sh "
        "drivers fetches NVIDIA's driver libraries\n",
        stderr);
    return kCannotSetUp;
  }
  std::vector<char*> words = {const_cast<char*>("bash"), const_cast<char*>(script.c_str()),
                              const_cast<char*>("drivers")};
  for (const std::string& version : versions) words.push_back(const_cast<char*>(version.c_str()));
  words.push_back(nullptr);
  execvp("bash", words.data());
  std::fprintf(stderr, "phantora-run: bash, which runs %s, cannot be started: %s\n", script.c_str(),
               std::strerror(errno));
  return kCannotSetUp;
}

}  // namespace phantora
