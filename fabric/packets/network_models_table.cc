// Prints what packets make of small cases, as shares of what flows that share ideally make of them.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fabric/packets/network_cases.h"

namespace phantora {
namespace {

void Row(const std::string& name, const NetworkCase& network_case) {
  const NetworkResult ideal = RunFlows(network_case, PacketOptions());
  std::printf("%-28s %9.1f", name.c_str(), ideal.Last() * 1e6);
  for (const PacketOptions& options : {PacketOptions(), PaperDcqcn(), VendorDcqcn()}) {
    const NetworkResult real = RunPackets(network_case, options);
    std::printf("   %5.3f %5.3f %6zu %5.0f", ideal.Last() / real.Last(),
                ideal.seconds.back() / real.seconds.back(), size_t{real.counts.pauses},
                real.longest_queue_bytes / 1e3);
  }
  std::printf("   %5.3f\n",
              ideal.Last() / RunControlledFlows(network_case, PacketOptions()).Last());
}

void Table() {
  std::printf("%-28s %9s   %-25s %-25s %-25s %s\n", "case", "ideal us", "pauses only",
              "DCQCN, paper", "DCQCN, vendor", "flows with DCQCN");
  std::printf("%38s", "");
  for (int i = 0; i < 3; ++i) std::printf("   %5s %5s %6s %5s", "all", "last", "pauses", "kB");
  std::printf("\n");
  for (const int senders : {1, 2, 4, 8, 16, 32}) {
    for (const int megabytes : {1, 8, 64}) {
      Row(absl::StrCat("incast ", senders, " x ", megabytes, " MB"),
          Incast(senders, megabytes * 1e6));
    }
  }
  for (const int kilobytes : {200, 500, 2000}) {
    NetworkCase made = Incast(8, 64e6);
    made.buffer_bytes = kilobytes * 1e3;
    Row(absl::StrCat("incast 8 x 64 MB, ", kilobytes, " kB"), made);
  }
  for (const int senders : {2, 4, 8}) {
    for (const int megabytes : {1, 16, 64}) {
      Row(absl::StrCat(senders, " and a victim, ", megabytes, " MB"),
          Victim(senders, megabytes * 1e6, megabytes * 1e6));
      Row(absl::StrCat(senders, " and one beside, ", megabytes, " MB"),
          Beside(senders, megabytes * 1e6));
    }
  }
  for (const int megabytes : {1, 16, 64}) {
    const double bytes = megabytes * 1e6;
    Row(absl::StrCat("ring, even, ", megabytes, " MB"),
        RingOfEight({0, 0, 0, 0, 1, 1, 1, 1}, bytes));
    Row(absl::StrCat("ring, 3 on a link, ", megabytes, " MB"),
        RingOfEight({0, 0, 0, 0, 0, 1, 1, 1}, bytes));
    Row(absl::StrCat("ring, 4 on a link, ", megabytes, " MB"),
        RingOfEight({0, 0, 0, 1, 0, 0, 0, 1}, bytes));
    Row(absl::StrCat("ring, sprayed, ", megabytes, " MB"), RingOfEight({}, bytes));
  }
  for (const int megabytes : {1, 8}) {
    Row(absl::StrCat("all-to-all, hashed, ", megabytes, " MB"), AllToAll(false, megabytes * 1e6));
    Row(absl::StrCat("all-to-all, sprayed, ", megabytes, " MB"), AllToAll(true, megabytes * 1e6));
  }
}

}  // namespace
}  // namespace phantora

int main() { phantora::Table(); }
