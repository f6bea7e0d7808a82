// Files by which programs learn about the machine that they run on.
#ifndef PHANTORA_TOOLS_RUN_HOST_FILES_H_
#define PHANTORA_TOOLS_RUN_HOST_FILES_H_

#include "tools/run/cluster_job.h"
#include "trap/files/synthetic_files.h"

namespace phantora {

// Of host number `host` of the job: its name, those of all hosts, processors and memory. What is
// not about these is copied from the real machine.
void AddHostFiles(const Job& job, int host, SyntheticFiles* files);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_HOST_FILES_H_
