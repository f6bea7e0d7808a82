#include "trap/rm/driver_version.h"

#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace phantora {
namespace {

struct Branch {
  DriverAbi abi;
  DriverEvidence evidence;
};
constexpr Branch kBranches[] = {
    {DriverAbi::k535, DriverEvidence::kRecorded}, {DriverAbi::k545, DriverEvidence::kRun},
    {DriverAbi::k550, DriverEvidence::kRecorded}, {DriverAbi::k555, DriverEvidence::kRun},
    {DriverAbi::k560, DriverEvidence::kHeaders},  {DriverAbi::k565, DriverEvidence::kHeaders},
    {DriverAbi::k570, DriverEvidence::kRun},      {DriverAbi::k575, DriverEvidence::kHeaders},
    {DriverAbi::k580, DriverEvidence::kRecorded}, {DriverAbi::k590, DriverEvidence::kHeaders},
    {DriverAbi::k595, DriverEvidence::kRun},
};
static_assert(std::size(kBranches) == std::size(kDriverAbis));

struct Release {
  absl::string_view text;
  const char* differs;
};
constexpr Release kReleases[] = {
#include "trap/abi/generated/releases.inc"
};

std::string BranchNames() {
  std::string names;
  for (const Branch& branch : kBranches) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", static_cast<int>(branch.abi));
  }
  return names;
}

}  // namespace

DriverAbi NearestAbi(int branch) { return kDriverAbis[IndexOf(static_cast<DriverAbi>(branch))]; }

absl::StatusOr<DriverVersion> ResolveDriverVersion(const std::string& text, bool force) {
  int number = 0;
  const std::vector<std::string> parts = absl::StrSplit(text, '.');
  if (!absl::SimpleAtoi(parts[0], &number)) {
    return absl::InvalidArgumentError(absl::StrCat("not a driver version: ", text));
  }
  for (const Branch& branch : kBranches) {
    if (static_cast<int>(branch.abi) != number) continue;
    DriverVersion version{text, branch.abi, branch.evidence};
    for (const Release& release : kReleases) {
      if (release.text != text) continue;
      version.compared = true;
      version.differs = release.differs;
    }
    return version;
  }
  if (!force) {
    return absl::UnimplementedError(
        absl::StrCat("driver ", text, " is of a branch that is not known; there are ",
                     BranchNames(), ". Choose one with --driver, or try --force-driver-abi"));
  }
  return DriverVersion{text, NearestAbi(number), DriverEvidence::kHeaders};
}

}  // namespace phantora
