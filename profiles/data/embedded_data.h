// The files under profiles/data, compiled into the program.
#ifndef PHANTORA_PROFILES_DATA_EMBEDDED_DATA_H_
#define PHANTORA_PROFILES_DATA_EMBEDDED_DATA_H_

#include <string_view>
#include <vector>

namespace phantora {

struct EmbeddedFile {
  std::string_view name;  // from the project's root
  std::string_view content;
};

const std::vector<EmbeddedFile>& EmbeddedData();

}  // namespace phantora

#endif  // PHANTORA_PROFILES_DATA_EMBEDDED_DATA_H_
