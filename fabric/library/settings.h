// What the program's configuration and the environment ask of a communicator.
#ifndef PHANTORA_FABRIC_LIBRARY_SETTINGS_H_
#define PHANTORA_FABRIC_LIBRARY_SETTINGS_H_

#include "fabric/library/nccl_api.h"
#include "fabric/library/wire.h"

namespace phantora::nccl {

// What of ncclConfig_t is not ignored.
struct Config {
  bool blocking = true;
  int min_ctas = -1, max_ctas = -1;  // -1: not set
  int collnet = -1;
};

// `given` may come from a program that was compiled against an older NCCL.
ncclResult_t ReadConfig(const ncclConfig_t* given, Config& config);

// The environment's wishes go before the configuration's, as in NCCL. Read each time, because NCCL
// does not remember all of them either.
void ApplyEnvironment(Config& config);
Settings MakeSettings(const Config& config);

}  // namespace phantora::nccl

#endif  // PHANTORA_FABRIC_LIBRARY_SETTINGS_H_
