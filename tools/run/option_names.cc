#include "tools/run/option_names.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"

namespace phantora {

std::vector<std::string> NamesOf(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back(absl::StrCat("-", name));
  for (const std::string& name : option.get_lnames()) names.push_back(absl::StrCat("--", name));
  return names;
}

std::string TypeOf(const CLI::Option& option) {
  return option.get_expected_min() == 0 ? "" : option.get_type_name();
}

bool TakesValue(const CLI::Option& option) { return !TypeOf(option).empty(); }

}  // namespace phantora
