// Text as JSON.
#ifndef PHANTORA_TOOLS_OBSERVE_JSON_TEXT_H_
#define PHANTORA_TOOLS_OBSERVE_JSON_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace phantora {

// `value` as one line of ASCII, or indented by `indent` spaces. What is not UTF-8 (a command
// line may be anything) becomes U+FFFD.
template <typename Json>
std::string DumpJson(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', true, Json::error_handler_t::replace);
}

// A string with its quotes.
inline std::string JsonText(absl::string_view text) {
  return DumpJson(nlohmann::json(std::string(text)));
}

}  // namespace phantora

#endif  // PHANTORA_TOOLS_OBSERVE_JSON_TEXT_H_
