// Where in the program an allocation is made, in words.
#ifndef PHANTORA_TRAP_CHECK_LIBRARY_CALL_SITE_H_
#define PHANTORA_TRAP_CHECK_LIBRARY_CALL_SITE_H_

#include <stddef.h>

namespace phantora::check {

// Of the calling thread, from the inside: "model.py:12 in forward < train.py:3 in main" if it
// executes Python, else functions, or places in files that addr2line understands. `where` has room
// for `bytes`, and ends with a zero.
void DescribeCallSite(char* where, size_t bytes);

// Whether `descriptor` is the one by which Python is asked where it is; takes what is written to
// it.
bool TakePythonFrames(int descriptor, const void* bytes, size_t length);

}  // namespace phantora::check

#endif  // PHANTORA_TRAP_CHECK_LIBRARY_CALL_SITE_H_
