// phantora-run doctor: can this machine run Phantora, and what should change?
#ifndef PHANTORA_TOOLS_RUN_DOCTOR_H_
#define PHANTORA_TOOLS_RUN_DOCTOR_H_

namespace phantora {

// Prints one line per check. Returns 0 if nothing that is needed is missing.
int RunDoctor();

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_DOCTOR_H_
