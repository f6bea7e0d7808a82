#include "profiles/surfaces/surface_library.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "profiles/data/embedded_surfaces.h"
#include "profiles/surfaces/held_out.h"

namespace phantora {
namespace {

std::vector<std::filesystem::path> HeldOutFiles() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("profiles/held_out")) {
    if (entry.path().extension() == ".surface") files.push_back(entry.path());
  }
  return files;
}

KernelWork Product(double m, double n, double k, double batch = 1) {
  KernelWork work;
  work.precision = MathPrecision::kBf16;
  work.shape = {m, n, k, batch};
  return work;
}

double Price(const KernelWork& work) {
  SurfaceLibrary library("h100-sxm5-80gb");
  const auto price = library.Find(work, WorkFamily::kGemm);
  EXPECT_TRUE(price.ok() && price->has_value());
  return (*price)->seconds;
}

TEST(SurfaceLibraryTest, EveryShippedSurfaceCanBeRead) {
  int surfaces = 0;
  for (const EmbeddedFile& file : EmbeddedSurfaces()) {
    const std::filesystem::path path = file.name;
    if (path.extension() != ".surface") continue;
    SurfaceLibrary library(path.parent_path().parent_path().filename());
    const auto check = [&](const auto& surface) {
      ASSERT_TRUE(surface.ok()) << surface.status();
      ASSERT_NE(*surface, nullptr) << path << ": fit_surfaces was not run for it";
      ++surfaces;
    };
    const std::string name = path.stem();
    if (name.starts_with("attention") || name.starts_with("flash2")) {
      check(library.Attention(name));
    } else if (name.starts_with("experts")) {
      check(library.Experts(name));
    } else {
      check(library.Products(name));
    }
  }
  EXPECT_GE(surfaces, 12);
}

TEST(SurfaceLibraryTest, SaysNothingOfWhatWasNotMeasured) {
  SurfaceLibrary h100("h100-sxm5-80gb"), none("no-such-gpu");
  KernelWork fp64 = Product(64, 64, 64);
  fp64.precision = MathPrecision::kFp64;
  EXPECT_FALSE(h100.Find(fp64, WorkFamily::kGemm)->has_value());
  KernelWork fp8 = Product(64, 64, 64);
  fp8.precision = MathPrecision::kFp8;
  EXPECT_FALSE(h100.Find(fp8, WorkFamily::kGemm)->has_value());
  fp8.cutlass = true;
  EXPECT_TRUE(h100.Find(fp8, WorkFamily::kGemm)->has_value());
  EXPECT_FALSE(h100.Find(Product(64, 64, 64, 2), WorkFamily::kGemm)->has_value());
  EXPECT_FALSE(h100.Find(Product(64, 64, 64), WorkFamily::kConvolution)->has_value());
  EXPECT_FALSE(h100.Find(KernelWork{}, WorkFamily::kGemm)->has_value());
  EXPECT_FALSE(none.Find(Product(64, 64, 64), WorkFamily::kGemm)->has_value());
}

TEST(SurfaceLibraryTest, MoreWorkTakesLonger) {
  EXPECT_GT(Price(Product(8192, 8192, 8192)), 6 * Price(Product(4096, 4096, 4096)));
  EXPECT_GT(Price(Product(4096, 131072, 128)), 10 * Price(Product(4096, 4096, 128)));
  // Beyond what was measured, too.
  const double large = Price(Product(65536, 65536, 65536));
  EXPECT_NEAR(Price(Product(131072, 131072, 131072)) / large, 8, 1);
}

TEST(SurfaceLibraryTest, EverySizeHasAPrice) {
  for (const double m : {1.0, 3.0, 1e4, kLargestDimension}) {
    for (const double n : {1.0, 7.0, 1e5, kLargestDimension}) {
      for (const double k : {1.0, 1e6, kLargestDimension}) {
        const double seconds = Price(Product(m, n, k));
        EXPECT_TRUE(std::isfinite(seconds) && seconds > 0) << m << " " << n << " " << k;
      }
    }
  }
}

TEST(SurfaceLibraryTest, BarsGrowWithTheDistance) {
  SurfaceLibrary library("h100-sxm5-80gb");
  const auto bar = [&](const KernelWork& work) {
    return (*library.Find(work, WorkFamily::kGemm))->bar;
  };
  EXPECT_GT(bar(Product(1 << 24, 1 << 24, 1 << 24)), 2 * bar(Product(8192, 8192, 8192)));
}

// What docs/PRICES.md says of the points that were left out, and that they were left out.
TEST(SurfaceLibraryTest, HeldOutPointsAreWithinTheirBars) {
  int compared = 0;
  for (const auto& path : HeldOutFiles()) {
    const auto held_out = HeldOut::Read(path);
    ASSERT_TRUE(held_out.ok()) << path << ": " << held_out.status();
    if (held_out->table().find("vllm") == std::string::npos) continue;
    const auto misses = held_out->Within(0, 1e9);
    EXPECT_LT(misses.median, 0.06) << path;
    EXPECT_LT(std::abs(misses.bias), 0.015) << path;
    EXPECT_GT(misses.within_bars, 0.85) << path;
    EXPECT_LT(misses.within_bars, 0.95) << path;
    ++compared;
  }
  EXPECT_GE(compared, 10);
}

TEST(SurfaceLibraryTest, NothingIsMadeFromWhatIsHeldOut) {
  std::set<std::string> fitted, held;
  for (const EmbeddedFile& file : EmbeddedSurfaces()) {
    const std::filesystem::path path = file.name;
    if (path.extension() != ".surface") continue;
    const auto points = SurfacePoints::Parse(file.content);
    const std::string table = nlohmann::json::parse(points->source()).at("path");
    EXPECT_EQ(table.find("sglang"), std::string::npos) << path;
    EXPECT_EQ(table.find("trtllm"), std::string::npos) << path;
    for (size_t i = 0; i < points->rows(); ++i) {
      std::string point = table + " " + std::string(path.stem());
      for (const float value : points->Row(i)) point += " " + std::to_string(value);
      fitted.insert(point);
    }
  }
  for (const auto& path : HeldOutFiles()) {
    const auto held_out = HeldOut::Read(path);
    for (const std::string& point : held_out->Points()) {
      EXPECT_FALSE(fitted.contains(point)) << point;
      held.insert(point);
    }
  }
  EXPECT_GT(held.size(), 100000u);
}

}  // namespace
}  // namespace phantora
