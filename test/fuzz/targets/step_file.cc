// Recordings of steps, read and replayed.
#include <string>

#include "test/fuzz/choices.h"
#include "tools/replay/rank_axes.h"
#include "tools/replay/step_period.h"
#include "tools/replay/step_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace phantora;
  const auto record = ParseStepRecord(std::string(data, data + size));
  if (!record.ok()) {
    Require(!record.status().message().empty());
    return 0;
  }
  FindAxes(*record).IgnoreError();
  for (const auto& role : record->roles) FindSteps(role).IgnoreError();
  return 0;
}
