// When an option of phantora-run does something.
#ifndef PHANTORA_TOOLS_RUN_OPTION_EFFECTS_H_
#define PHANTORA_TOOLS_RUN_OPTION_EFFECTS_H_

#include "absl/types/span.h"
#include "tools/run/session_options.h"

namespace phantora {

// An option that is given and has no effect is refused, with a sentence of the option's name and
// `otherwise`. Options that are in no row always have one.
struct OptionEffect {
  const char* option;
  bool (*has_effect)(const SessionOptions&);
  const char* otherwise;
};

// In the order in which they are looked at; an option may have several rows.
absl::Span<const OptionEffect> OptionEffects();

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_OPTION_EFFECTS_H_
