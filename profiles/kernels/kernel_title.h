// What a kernel is called in reports and traces.
#ifndef PHANTORA_PROFILES_KERNELS_KERNEL_TITLE_H_
#define PHANTORA_PROFILES_KERNELS_KERNEL_TITLE_H_

#include <string>
#include <string_view>

namespace phantora {

// Of a symbol's name, which may be mangled C++ (Itanium ABI) and is untrusted. Not a
// demangler, whose output can grow without bound: the function's own name, and in angle
// brackets the identifiers of its template arguments that tell kernels apart, e.g.
// "vectorized_elementwise_kernel<CUDAFunctor_add, BFloat16>". Linear in the name's length,
// printable, at most 200 characters.
std::string KernelTitle(std::string_view symbol);

}  // namespace phantora

#endif  // PHANTORA_PROFILES_KERNELS_KERNEL_TITLE_H_
