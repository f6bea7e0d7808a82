// How far prices of surfaces are from measurements that nothing was made from:
//
//   bazel run //profiles/surfaces:surface_table
//
// prints a table in Markdown. The measurements are those of profiles/held_out: what the importer
// left out of what surfaces are fitted to, and tables of other engines.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "profiles/surfaces/held_out.h"

namespace phantora {
namespace {

constexpr struct {
  const char* name;
  double from_s, to_s;
} kBands[] = {{"all", 0, 1e9},
              {"under 10 us", 0, 1e-5},
              {"to 100 us", 1e-5, 1e-4},
              {"to 1 ms", 1e-4, 1e-3},
              {"above", 1e-3, 1e9}};

int Main(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".surface") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::puts("| GPU, surface | held out | band | points | median | 90th | bias | within bars |");
  std::puts("|---|---|---|---|---|---|---|---|");
  for (const auto& path : files) {
    const auto held_out = HeldOut::Read(path);
    if (!held_out.ok()) {
      std::cerr << path << ": " << held_out.status().message() << "\n";
      return 1;
    }
    for (const auto& band : kBands) {
      const HeldOut::Misses misses = held_out->Within(band.from_s, band.to_s);
      if (misses.points == 0) continue;
      std::printf("| %s %s | %s | %s | %zu | %.1f %% | %.1f %% | %+.1f %% | %.0f %% |\n",
                  held_out->gpu().c_str(), held_out->surface().c_str(), held_out->table().c_str(),
                  band.name, misses.points, 100 * misses.median, 100 * misses.ninetieth,
                  100 * misses.bias, 100 * misses.within_bars);
    }
  }
  return 0;
}

}  // namespace
}  // namespace phantora

int main(int argc, char** argv) { return phantora::Main(argc > 1 ? argv[1] : "profiles/held_out"); }
