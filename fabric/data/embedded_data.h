// The files under fabric/data, compiled into the program.
#ifndef PHANTORA_FABRIC_DATA_EMBEDDED_DATA_H_
#define PHANTORA_FABRIC_DATA_EMBEDDED_DATA_H_

#include <vector>

#include "profiles/data/embedded_data.h"

namespace phantora {

const std::vector<EmbeddedFile>& FabricData();

}  // namespace phantora

#endif  // PHANTORA_FABRIC_DATA_EMBEDDED_DATA_H_
