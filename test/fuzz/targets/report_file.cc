// Reports that are compared.
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "test/fuzz/choices.h"
#include "tools/observe/compare_reports.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace phantora;
  static const int file = memfd_create("report", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  Require(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  const auto report = ReadReport(path);
  if (!report.ok()) {
    Require(!report.status().message().empty());
    return 0;
  }
  CompareReports(*report, *report);
  return 0;
}
