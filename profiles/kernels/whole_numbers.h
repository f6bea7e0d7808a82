// Checks that numbers of a JSON document can be taken for integers.
#ifndef PHANTORA_PROFILES_KERNELS_WHOLE_NUMBERS_H_
#define PHANTORA_PROFILES_KERNELS_WHOLE_NUMBERS_H_

#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>

#include "nlohmann/json.hpp"

namespace phantora {

// All numbers of `json` have to be whole and of [0, most], but for those below the keys of
// `fractions`. The library would convert others silently. Throws std::invalid_argument with the
// key, `name` being that of `json`.
template <typename Json>  // nlohmann's, ordered or not
void RequireWholeNumbers(const Json& json, uint64_t most, const std::set<std::string>& fractions,
                         const std::string& name = "") {
  if (json.is_number()) {
    if (!json.is_number_unsigned() || json.template get<uint64_t>() > most) {
      throw std::invalid_argument(name + " must be a whole number of 0 to " + std::to_string(most) +
                                  ", not " + json.dump());
    }
  } else if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      if (fractions.contains(key)) continue;
      RequireWholeNumbers(value, most, fractions, name.empty() ? key : name + "." + key);
    }
  } else if (json.is_array()) {
    for (const auto& value : json) RequireWholeNumbers(value, most, fractions, name);
  }
}

}  // namespace phantora

#endif  // PHANTORA_PROFILES_KERNELS_WHOLE_NUMBERS_H_
