#ifndef PHANTORA_TOOLS_VERSION_H_
#define PHANTORA_TOOLS_VERSION_H_

namespace phantora {

// Of all programs. tools/package.sh reads it from here.
inline constexpr char kPhantoraVersion[] = "0.1.0";

}  // namespace phantora

#endif  // PHANTORA_TOOLS_VERSION_H_
