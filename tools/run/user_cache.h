// Where things are kept between runs.
#ifndef PHANTORA_TOOLS_RUN_USER_CACHE_H_
#define PHANTORA_TOOLS_RUN_USER_CACHE_H_

#include <cstdlib>
#include <string>

namespace phantora {

// $PHANTORA_CACHE, or a folder in the user's home; empty for nowhere.
inline std::string UserCache() {
  if (const char* cache = std::getenv("PHANTORA_CACHE"); cache != nullptr && *cache != '\0') {
    return cache;
  }
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? "" : std::string(home) + "/.cache/phantora";
}

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_USER_CACHE_H_
