// Which layout of a structure each branch of the driver has. The headers in trap/abi/generated
// specialise VersionsOf for what is not the same in all of them.
#ifndef PHANTORA_TRAP_ABI_VERSIONS_H_
#define PHANTORA_TRAP_ABI_VERSIONS_H_

namespace phantora::abi {

// Of branch kBranch and later ones. kExtends: it has every member of the oldest version at its
// place, so that who serves that one can serve this one, too.
template <int kBranch, typename T, bool kExtends>
struct Version {
  using Layout = T;
  static constexpr int kSince = kBranch;
  static constexpr bool kIsExtension = kExtends;
};

// The oldest first.
template <typename... Each>
struct Versions {};

inline constexpr int kOldestBranch = 535;

template <typename T>
struct VersionsOf {
  using All = Versions<Version<kOldestBranch, T, true>>;
};

}  // namespace phantora::abi

#endif  // PHANTORA_TRAP_ABI_VERSIONS_H_
