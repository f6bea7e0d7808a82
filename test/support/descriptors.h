// Passing file descriptors between processes, for programs that test it or need it.
#ifndef PHANTORA_TEST_SUPPORT_DESCRIPTORS_H_
#define PHANTORA_TEST_SUPPORT_DESCRIPTORS_H_

#include <sys/types.h>

#include <cstddef>

// Sends `size` bytes and a descriptor over a Unix socket, by one sendmsg(2). `flags`: MSG_*. The
// result is the call's.
ssize_t SendWithDescriptor(int socket, const void* data, size_t size, int descriptor, int flags);

// Receives both, by one recvmsg(2). `*descriptor` is -1 if none came. The result is the call's.
ssize_t ReceiveWithDescriptor(int socket, void* data, size_t size, int* descriptor, int flags);

#endif  // PHANTORA_TEST_SUPPORT_DESCRIPTORS_H_
