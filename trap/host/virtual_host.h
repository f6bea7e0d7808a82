// A host of an emulated cluster, as its processes see it.
#ifndef PHANTORA_TRAP_HOST_VIRTUAL_HOST_H_
#define PHANTORA_TRAP_HOST_VIRTUAL_HOST_H_

#include <netinet/in.h>

#include <cstdint>
#include <string>

#include "trap/files/synthetic_files.h"

namespace phantora {

struct VirtualHost {
  const SyntheticFiles* files = nullptr;
  // What uname() says; empty: what the real machine says, as with the other two.
  std::string name;
  int cores = 0;
  uint64_t memory_bytes = 0;
  in_addr address{};  // where its servers are, see port_calls.h

  bool pretends() const { return !name.empty(); }
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_HOST_VIRTUAL_HOST_H_
