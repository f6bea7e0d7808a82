// The files of profiles/data/<gpu>/surfaces, compiled into the program.
#ifndef PHANTORA_PROFILES_DATA_EMBEDDED_SURFACES_H_
#define PHANTORA_PROFILES_DATA_EMBEDDED_SURFACES_H_

#include <vector>

#include "profiles/data/embedded_data.h"

namespace phantora {

const std::vector<EmbeddedFile>& EmbeddedSurfaces();

}  // namespace phantora

#endif  // PHANTORA_PROFILES_DATA_EMBEDDED_SURFACES_H_
