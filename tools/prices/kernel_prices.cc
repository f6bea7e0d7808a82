// kernel_prices: the measured kernels of a GPU beside what they would be priced at without each.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_format.h"
#include "profiles/gpu/gpu_profile.h"
#include "profiles/gpu/work_price.h"
#include "profiles/kernels/kernel_rows.h"

namespace phantora {
namespace {

int Fail(const absl::Status& status) {
  absl::FPrintF(stderr, "kernel_prices: %s\n", status.message());
  return 1;
}

int Run(const std::string& gpu, const char* file) {
  const auto profile = FindGpuProfile(gpu);
  if (!profile.ok()) return Fail(profile.status());
  const auto rates = FindGpuRates(gpu);
  if (!rates.ok()) return Fail(rates.status());
  const int sms = static_cast<int>(profile->sms());
  auto rows = KernelRows::Find(gpu, *rates, sms);
  if (file != nullptr) {
    std::ifstream in(file);
    if (!in) return Fail(absl::NotFoundError(absl::StrFormat("cannot read %s", file)));
    std::stringstream text;
    text << in.rdbuf();
    rows = KernelRows::Parse(text.str(), *rates, sms);
  }
  if (!rows.ok()) return Fail(rows.status());
  std::puts("family\tprecision\tdirection\tkernel\tshape\tmeasured_us\tmodelled_us\tothers_us");
  for (const auto& row : rows->Compare()) {
    absl::PrintF("%s\t%.4g\t%.4g\t%s\n", row.row, row.measured_s * 1e6, row.modelled_s * 1e6,
                 row.others_s ? absl::StrFormat("%.4g", *row.others_s * 1e6) : "-");
  }
  return 0;
}

}  // namespace
}  // namespace phantora

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fputs(
        "usage: kernel_prices GPU [ROWS.tsv]\n"
        "Prints, for each measured row of the GPU (or of the file): microseconds measured, by\n"
        "the model alone, and by the model and all other rows.\n",
        stderr);
    return 2;
  }
  return phantora::Run(argv[1], argc > 2 ? argv[2] : nullptr);
}
