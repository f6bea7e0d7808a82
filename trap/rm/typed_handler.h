// Functions that serve driver calls, whose parameter blocks have a type each: a table's row takes
// the block's size from the function itself, so that they cannot differ.
#ifndef PHANTORA_TRAP_RM_TYPED_HANDLER_H_
#define PHANTORA_TRAP_RM_TYPED_HANDLER_H_

#include <cstdint>
#include <type_traits>

#include "trap/rm/driver_version.h"

namespace phantora {

// `Params` of `Result Serve(Call&, Params&)`, or of a member function of that form.
template <typename Handler>
struct HandlerTraits;
template <typename Result, typename Call, typename P>
struct HandlerTraits<Result (*)(Call&, P&)> {
  using Params = std::remove_const_t<P>;
};
template <typename Result, typename Class, typename Call, typename P>
struct HandlerTraits<Result (Class::*)(Call&, P&)> {
  using Params = std::remove_const_t<P>;
};
template <auto kHandler>
using ParamsOf = typename HandlerTraits<decltype(kHandler)>::Params;

// How a call is served in one of the driver's interfaces.
template <typename Handler>
struct TypedHandler {
  static constexpr uint32_t kAbsent = ~0u;

  uint32_t size = kAbsent;  // bytes of the parameter block; kAbsent: the interface lacks the call
  Handler serve = nullptr;  // a block of that size
};

// In all of them. What 580 does not say otherwise is as in 550.
template <typename Handler>
struct HandlerVersions {
  TypedHandler<Handler> v535, v550, v580;

  constexpr HandlerVersions(TypedHandler<Handler> v535, TypedHandler<Handler> v550)
      : HandlerVersions(v535, v550, v550) {}
  constexpr HandlerVersions(TypedHandler<Handler> v535, TypedHandler<Handler> v550,
                            TypedHandler<Handler> v580)
      : v535(v535), v550(v550), v580(v580) {}

  const TypedHandler<Handler>& For(DriverAbi abi) const {
    return abi >= DriverAbi::k580 ? v580 : abi >= DriverAbi::k550 ? v550 : v535;
  }
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_TYPED_HANDLER_H_
