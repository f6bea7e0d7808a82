// Who is this code? An index of the kernels in a library, as one flat block of bytes that can
// be kept in a file and mapped.
#ifndef PHANTORA_PROFILES_KERNELS_KERNEL_INDEX_H_
#define PHANTORA_PROFILES_KERNELS_KERNEL_INDEX_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "profiles/kernels/cubin.h"
#include "profiles/kernels/fat_binary.h"

namespace phantora {

// What the index knows of a kernel; the views point into the index.
struct IndexedKernel {
  std::string_view name;  // as in the cubin's symbol table, mangled if it is C++
  uint32_t code_bytes = 0;
  absl::Span<const CubinKernel::Parameter> parameters;
  std::optional<CubinPlace> place;  // in the file that was indexed
};

// Reads the first `bytes` of the code that is asked about; false if it has not so many.
using CodeReader = std::function<bool(uint8_t* to, uint64_t bytes)>;

class KernelIndex {
 public:
  // The index of all kernels for `architecture` in `file`, a whole ELF file, made with
  // `threads` threads. What cannot be unpacked, or is too much for any library, is left out and
  // counted in `malformed`.
  static std::vector<uint8_t> Build(absl::Span<const uint8_t> file, int architecture, int threads,
                                    uint64_t* malformed);
  // The index of kernels whose cubins were found otherwise.
  static std::vector<uint8_t> Build(std::vector<CubinKernel> kernels);

  // `owner` keeps `bytes` in place, which start at a multiple of 8. The bytes are untrusted.
  // nullopt: they are no index.
  static std::optional<KernelIndex> Open(absl::Span<const uint8_t> bytes,
                                         std::shared_ptr<const void> owner);

  // The kernel whose code this is; `prefix` is its PrefixFingerprint.
  std::optional<IndexedKernel> Find(uint64_t prefix, const CodeReader& read) const;

  uint32_t size() const { return kernels_; }

 private:
  struct Record;
  struct Entry;
  KernelIndex() = default;
  static std::vector<uint8_t> Pack(std::vector<Entry> entries, std::vector<CubinPlace> places);
  Record At(uint32_t kernel) const;
  template <typename T>
  absl::Span<const T> Part(absl::Span<const T> whole, uint32_t at, uint32_t count) const;

  std::shared_ptr<const void> owner_;
  uint32_t kernels_ = 0;
  const uint8_t* records_ = nullptr;
  absl::Span<const CubinPlace> places_;
  absl::Span<const uint32_t> relocated_;
  absl::Span<const CubinKernel::Parameter> parameters_;
  absl::Span<const char> names_;
};

}  // namespace phantora

#endif  // PHANTORA_PROFILES_KERNELS_KERNEL_INDEX_H_
