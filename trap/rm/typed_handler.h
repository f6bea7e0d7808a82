// Functions that serve driver calls, whose parameter blocks have a type each: a table's row takes
// the block's size from the function itself, so that they cannot differ.
#ifndef PHANTORA_TRAP_RM_TYPED_HANDLER_H_
#define PHANTORA_TRAP_RM_TYPED_HANDLER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "trap/abi/versions.h"
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
  Handler serve = nullptr;  // a block of that size; nullptr if the interface lacks the call
};

// In all of them.
template <typename Handler>
class HandlerVersions {
 public:
  // In all the same.
  constexpr explicit HandlerVersions(TypedHandler<Handler> all) { served_.fill(all); }

  // The same, but from a branch on.
  [[nodiscard]] constexpr HandlerVersions Since(DriverAbi abi, TypedHandler<Handler> served) const {
    HandlerVersions result = *this;
    for (size_t index = IndexOf(abi); index < served_.size(); ++index) {
      result.served_[index] = served;
    }
    return result;
  }

  constexpr const TypedHandler<Handler>& For(DriverAbi abi) const { return served_[IndexOf(abi)]; }

 private:
  std::array<TypedHandler<Handler>, std::size(kDriverAbis)> served_{};
};

// What `make` gives for the layout that each branch has of `Block`: it is called with a type, as
// `make.template operator()<Layout>()`, and gives a TypedHandler. Branches before the first that
// has the structure lack the call.
template <typename Handler, typename Block, typename Make>
constexpr HandlerVersions<Handler> EachVersion(Make make) {
  HandlerVersions<Handler> versions{TypedHandler<Handler>{}};
  const auto add = [&]<typename... Version>(abi::Versions<Version...>) {
    ((versions = versions.Since(static_cast<DriverAbi>(Version::kSince),
                                make.template operator()<typename Version::Layout>())),
     ...);
  };
  add(typename abi::VersionsOf<Block>::All{});
  return versions;
}

// `serve` looks at no block, or at one of bytes: only the sizes differ.
template <typename Block, typename Handler>
constexpr HandlerVersions<Handler> EachSize(Handler serve) {
  return EachVersion<Handler, Block>([serve]<typename Layout>() {
    return TypedHandler<Handler>{sizeof(Layout), serve};
  });
}

// Do all versions only add to the oldest one of `Block`, so that who serves that can serve all?
template <typename Block>
constexpr bool OnlyGrows() {
  return []<typename... Version>(abi::Versions<Version...>) {
    return (Version::kIsExtension && ...);
  }(typename abi::VersionsOf<Block>::All{});
}

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_TYPED_HANDLER_H_
