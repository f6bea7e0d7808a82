// What the C++ library calls when a container or a lock cannot go on. Only in the shared library:
// throwing would end the program too, since NCCL's interface is C, but brings in half of the C++
// library, which needs a newer libc than the rest of this one.
#include <cstdlib>

namespace std {

void __throw_bad_alloc() { abort(); }
void __throw_bad_array_new_length() { abort(); }
void __throw_bad_function_call() { abort(); }
void __throw_length_error(const char*) { abort(); }
void __throw_system_error(int) { abort(); }

}  // namespace std
