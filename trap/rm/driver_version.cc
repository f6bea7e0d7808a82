#include "trap/rm/driver_version.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace phantora {
namespace {

struct Known {
  const char* text;
  DriverAbi abi;
};
constexpr Known kKnown[] = {
    {"535.261.03", DriverAbi::k535},
    {"550.163.01", DriverAbi::k550},
    {"580.159.04", DriverAbi::k580},
};

}  // namespace

DriverAbi NearestAbi(int branch) {
  return branch >= 570 ? DriverAbi::k580 : branch >= 550 ? DriverAbi::k550 : DriverAbi::k535;
}

absl::StatusOr<DriverVersion> ResolveDriverVersion(const std::string& text, bool force) {
  std::string known;
  for (const Known& version : kKnown) {
    if (text == version.text) return DriverVersion{text, version.abi};
    absl::StrAppend(&known, known.empty() ? "" : ", ", version.text);
  }
  int branch = 0;
  const std::vector<std::string> parts = absl::StrSplit(text, '.');
  if (!absl::SimpleAtoi(parts[0], &branch)) {
    return absl::InvalidArgumentError(absl::StrCat("not a driver version: ", text));
  }
  if (!force) {
    return absl::UnimplementedError(
        absl::StrCat("driver ", text, " is not known to work; tested are ", known,
                     ". Choose one with --driver, or try --force-driver-abi"));
  }
  return DriverVersion{text, NearestAbi(branch)};
}

}  // namespace phantora
