// What a process has mapped: libraries that may hold kernels, and cubins in its memory.
#ifndef PHANTORA_TRAP_GPU_PROCESS_IMAGES_H_
#define PHANTORA_TRAP_GPU_PROCESS_IMAGES_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "profiles/cubin.h"

namespace phantora {

// The files of its executable mappings, each once, by names that work from here
// (/proc/PID/root/...).
std::vector<std::string> MappedLibraries(pid_t process);

// Searches the anonymous writable memory of `process` for cubins and hands the kernels of
// each to `found`; their code does not outlive the call. libcuda keeps a copy of every image
// that it has loaded, also of those that were compiled at run time (NVRTC, Triton, XLA, PTX).
// 0.3 ms per MiB; gives up after 8 GiB or ten seconds, whatever is in it.
void FindCubinsInMemory(pid_t process, const std::function<void(std::vector<CubinKernel>)>& found);

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_PROCESS_IMAGES_H_
