// Which experts tokens go to (--routing), where the model's weights say nothing of that.
#ifndef PHANTORA_TRAP_GPU_FRONT_EXPERT_ROUTING_H_
#define PHANTORA_TRAP_GPU_FRONT_EXPERT_ROUTING_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "uvm_model/address_space.h"

namespace phantora {

// How likely experts are.
struct RoutingWeights {
  enum class Kind { kBalanced, kZipf, kRecorded };
  Kind kind = Kind::kBalanced;
  double exponent = 1;  // kZipf: the expert of rank r as 1 / r^exponent
  // kRecorded: by layer and expert; a model with more layers begins anew.
  std::vector<std::vector<double>> layers = {};

  // Of a layer with so many experts. Errors: other ones were recorded.
  absl::StatusOr<std::vector<double>> Of(uint64_t layer, uint64_t experts) const;
};

// balanced, zipf, zipf:EXPONENT, or a file with a line for each layer: a number for each expert, of
// tokens or weights. Errors: it is none of them; what is wrong in which line.
absl::StatusOr<RoutingWeights> ReadRoutingWeights(const std::string& text);

// Gives the kernels that choose experts (vLLM's topkGatingSoftmax and moeSoftmax, which SGLang has
// taken over) logits by which each token's choice is one at random of these weights, without
// repetition: their logarithms, plus noise of Gumbel's distribution (T. Vieira, "Gumbel-max trick
// and weighted reservoir sampling", 2014). The same in every run, and in every process at its
// launch of the same number: ranks that share tokens choose alike.
class ExpertRouting {
 public:
  explicit ExpertRouting(RoutingWeights weights) : weights_(std::move(weights)) {}

  // Does a kernel choose experts, or sort tokens by their choice?
  static bool IsPartOfRouting(absl::string_view symbol);

  // Before such a kernel is executed. `blocks` of its grid. False: it is none that chooses, or its
  // logits are not there.
  bool Prepare(pid_t process, absl::string_view symbol, absl::Span<const uint8_t> parameters,
               uint64_t blocks, AddressSpace& memory);

  void ProcessDied(pid_t process) { launches_.erase(process); }

  uint64_t prepared() const { return prepared_; }

 private:
  const RoutingWeights weights_;
  absl::flat_hash_map<pid_t, uint64_t> launches_;  // of a process's routers
  uint64_t prepared_ = 0;
  bool told_ = false;  // that the weights are for another model
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_EXPERT_ROUTING_H_
