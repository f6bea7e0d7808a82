// What the program would have found without this library.
#ifndef PHANTORA_TRAP_CHECK_LIBRARY_REAL_FUNCTIONS_H_
#define PHANTORA_TRAP_CHECK_LIBRARY_REAL_FUNCTIONS_H_

#include <stddef.h>
#include <sys/types.h>

namespace phantora::check {

using DlsymFunction = void* (*)(void*, const char*);
using WriteFunction = ssize_t (*)(int, const void*, size_t);

// libc's own.
DlsymFunction FindRealDlsym();
inline void* RealDlsym(void* handle, const char* name) { return FindRealDlsym()(handle, name); }
WriteFunction FindRealWrite();

}  // namespace phantora::check

#endif  // PHANTORA_TRAP_CHECK_LIBRARY_REAL_FUNCTIONS_H_
