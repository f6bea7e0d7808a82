// Everything that a driver library asked for and Phantora does not know. Each
// distinct thing is logged once and counted for the run's report.
#ifndef PHANTORA_TRAP_UNKNOWNS_H_
#define PHANTORA_TRAP_UNKNOWNS_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace phantora {

class Unknowns {
 public:
  // `kind` is a fixed word such as "control"; `detail` is logged with the first
  // occurrence. At most 10,000 distinct things are told apart, since a hostile
  // rank can invent numbers without end.
  void Count(std::string_view kind, uint64_t number, std::string_view detail);

  // One line per distinct thing, most frequent first; empty if there was none.
  std::string Report() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, uint64_t>, uint64_t> counts_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_UNKNOWNS_H_
