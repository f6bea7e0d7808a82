// Timeouts that belong to a socket, not to a call.
#include <fcntl.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "test/timeouts/sockets.h"

namespace {

void SetTimeout(int socket, int option, double units) {
  const timeval time = UnitsTimeval(units);
  CHECK(setsockopt(socket, SOL_SOCKET, option, &time, sizeof time) == 0);
  timeval got{};
  socklen_t size = sizeof got;
  CHECK(getsockopt(socket, SOL_SOCKET, option, &got, &size) == 0);
  // The kernel rounds up to its ticks.
  CHECK(got.tv_sec == time.tv_sec && got.tv_usec >= time.tv_usec);
  CHECK(got.tv_usec <= time.tv_usec + 10'000);
}

using Receiver = ssize_t (*)(int socket);

ssize_t Recv(int socket) {
  char byte;
  return recv(socket, &byte, 1, 0);
}

ssize_t Recvfrom(int socket) {
  char byte;
  sockaddr_storage address;
  socklen_t size = sizeof address;
  return recvfrom(socket, &byte, 1, 0, reinterpret_cast<sockaddr*>(&address), &size);
}

ssize_t Read(int socket) {
  char byte;
  return read(socket, &byte, 1);
}

ssize_t Readv(int socket) {
  char byte;
  const iovec part{&byte, 1};
  return readv(socket, &part, 1);
}

ssize_t Recvmsg(int socket) {
  char byte;
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return recvmsg(socket, &message, 0);
}

ssize_t Recvmmsg(int socket) {
  char byte;
  iovec part{&byte, 1};
  mmsghdr message{};
  message.msg_hdr.msg_iov = &part;
  message.msg_hdr.msg_iovlen = 1;
  return recvmmsg(socket, &message, 1, 0, nullptr);
}

void TimesOut(int family, int type, Receiver receive) {
  const SocketPair sockets(family, type);
  SetTimeout(sockets.left, SO_RCVTIMEO, 10);
  CHECK_ERROR(receive(sockets.left), EAGAIN);
}

void Receives(int family, int type, Receiver receive) {
  const SocketPair sockets(family, type);
  SetTimeout(sockets.left, SO_RCVTIMEO, 100);
  const Thread thread([&] {
    Sleep(10);
    CHECK(write(sockets.right, "x", 1) == 1);
  });
  CHECK(receive(sockets.left) == 1);
}

void FillsUp(int family) {
  const SocketPair sockets(family, SOCK_STREAM);
  static const char kMuch[65536] = {};
  while (send(sockets.left, kMuch, sizeof kMuch, MSG_DONTWAIT) > 0) {
  }
  CHECK(errno == EAGAIN);
  if (family == AF_INET) {
    // What is under way on the loopback may make room once more.
    Sleep(1);
    while (send(sockets.left, kMuch, 1, MSG_DONTWAIT) > 0) {
    }
    Expect(11);
  }
  SetTimeout(sockets.left, SO_SNDTIMEO, 10);
  CHECK_ERROR(send(sockets.left, kMuch, sizeof kMuch, 0), EAGAIN);
}

}  // namespace

WAY(rcvtimeo_unix_recv, 10) { TimesOut(AF_UNIX, SOCK_STREAM, Recv); }
WAY(rcvtimeo_unix_recvfrom, 10) { TimesOut(AF_UNIX, SOCK_STREAM, Recvfrom); }
WAY(rcvtimeo_unix_read, 10) { TimesOut(AF_UNIX, SOCK_STREAM, Read); }
WAY(rcvtimeo_unix_readv, 10) { TimesOut(AF_UNIX, SOCK_STREAM, Readv); }
WAY(rcvtimeo_unix_recvmsg, 10) { TimesOut(AF_UNIX, SOCK_STREAM, Recvmsg); }
WAY(rcvtimeo_unix_recvmmsg, 10) { TimesOut(AF_UNIX, SOCK_STREAM, Recvmmsg); }
WAY(rcvtimeo_unix_datagram, 10) { TimesOut(AF_UNIX, SOCK_DGRAM, Recv); }
WAY(rcvtimeo_tcp_recv, 10) { TimesOut(AF_INET, SOCK_STREAM, Recv); }
WAY(rcvtimeo_tcp_read, 10) { TimesOut(AF_INET, SOCK_STREAM, Read); }
WAY(rcvtimeo_tcp_recvmsg, 10) { TimesOut(AF_INET, SOCK_STREAM, Recvmsg); }
WAY(rcvtimeo_udp_recvfrom, 10) { TimesOut(AF_INET, SOCK_DGRAM, Recvfrom); }

WAY(rcvtimeo_unix_received, 10) { Receives(AF_UNIX, SOCK_STREAM, Recv); }
WAY(rcvtimeo_tcp_received, 10) { Receives(AF_INET, SOCK_STREAM, Read); }
WAY(rcvtimeo_udp_received, 10) { Receives(AF_INET, SOCK_DGRAM, Recvmsg); }

WAY(rcvtimeo_of_a_part, 15) {
  // With MSG_WAITALL, the limit is for the call; what has come by then is returned.
  const SocketPair sockets(AF_UNIX, SOCK_STREAM);
  SetTimeout(sockets.left, SO_RCVTIMEO, 15);
  const Thread thread([&] {
    Sleep(5);
    CHECK(write(sockets.right, "abc", 3) == 3);
  });
  char bytes[8];
  CHECK(recv(sockets.left, bytes, sizeof bytes, MSG_WAITALL) == 3);
}

WAY(rcvtimeo_of_another_thread, 10) {
  // It belongs to the socket: who sets it, and through which descriptor, does not matter.
  const SocketPair sockets(AF_UNIX, SOCK_STREAM);
  const int copy = dup(sockets.left);
  {
    const Thread thread([&] { SetTimeout(copy, SO_RCVTIMEO, 10); });
  }
  CHECK_ERROR(Recv(sockets.left), EAGAIN);
  close(copy);
}

WAY(rcvtimeo_inherited, 10) {
  const SocketPair sockets(AF_UNIX, SOCK_STREAM);
  SetTimeout(sockets.left, SO_RCVTIMEO, 10);
  WaitForChild(ForkChild([&] { CHECK_ERROR(Recv(sockets.left), EAGAIN); }));
}

WAY(rcvtimeo_taken_back, 20) {
  const SocketPair sockets(AF_UNIX, SOCK_STREAM);
  SetTimeout(sockets.left, SO_RCVTIMEO, 5);
  SetTimeout(sockets.left, SO_RCVTIMEO, 0);
  const Thread thread([&] {
    Sleep(20);
    CHECK(write(sockets.right, "x", 1) == 1);
  });
  CHECK(Recv(sockets.left) == 1);
}

WAY(rcvtimeo_of_a_non_blocking_socket, 0) {
  const SocketPair sockets(AF_UNIX, SOCK_STREAM);
  SetTimeout(sockets.left, SO_RCVTIMEO, 10);
  char byte;
  CHECK_ERROR(recv(sockets.left, &byte, 1, MSG_DONTWAIT), EAGAIN);
  CHECK(fcntl(sockets.left, F_SETFL, O_NONBLOCK) == 0);
  CHECK_ERROR(Recv(sockets.left), EAGAIN);
}

WAY(rcvtimeo_is_not_of_descriptor_numbers, 20) {
  // A new socket under the old number waits as long as it has to.
  int number;
  {
    const SocketPair sockets(AF_UNIX, SOCK_STREAM);
    SetTimeout(sockets.left, SO_RCVTIMEO, 5);
    number = sockets.left;
  }
  const SocketPair sockets(AF_UNIX, SOCK_STREAM);
  CHECK(sockets.left == number);
  const Thread thread([&] {
    Sleep(20);
    CHECK(write(sockets.right, "x", 1) == 1);
  });
  CHECK(Recv(sockets.left) == 1);
}

WAY(rcvtimeo_end_of_file, 10) {
  const SocketPair sockets(AF_UNIX, SOCK_STREAM);
  SetTimeout(sockets.left, SO_RCVTIMEO, 100);
  const Thread thread([&] {
    Sleep(10);
    shutdown(sockets.right, SHUT_WR);
  });
  CHECK(Recv(sockets.left) == 0);
}

WAY(rcvtimeo_tcp_accept, 10) {
  const TcpListener listener;
  SetTimeout(listener.get(), SO_RCVTIMEO, 10);
  CHECK_ERROR(accept(listener.get(), nullptr, nullptr), EAGAIN);
}

WAY(rcvtimeo_tcp_accepted, 10) {
  const TcpListener listener;
  SetTimeout(listener.get(), SO_RCVTIMEO, 100);
  const Thread thread([&] {
    Sleep(10);
    close(listener.Connect());
  });
  const int accepted = accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
  CHECK(accepted >= 0);
  close(accepted);
}

WAY(rcvtimeo_unix_accept, 10) {
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address{AF_UNIX, {}};  // the kernel chooses an abstract name
  CHECK(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(sa_family_t)) == 0);
  CHECK(listen(listener, 5) == 0);
  SetTimeout(listener, SO_RCVTIMEO, 10);
  CHECK_ERROR(accept(listener, nullptr, nullptr), EAGAIN);
  close(listener);
}

WAY(sndtimeo_unix, 10) { FillsUp(AF_UNIX); }
WAY(sndtimeo_tcp, 10) { FillsUp(AF_INET); }

WAY(sndtimeo_unix_connect, 10) {
  // A listener whose queue is full.
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{AF_UNIX, {}};
  socklen_t size = sizeof(sa_family_t);
  CHECK(bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
  size = sizeof address;
  CHECK(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  CHECK(listen(listener, 0) == 0);
  const int first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(connect(first, reinterpret_cast<sockaddr*>(&address), size) == 0);
  const int second = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SetTimeout(second, SO_SNDTIMEO, 10);
  CHECK_ERROR(connect(second, reinterpret_cast<sockaddr*>(&address), size), EAGAIN);
  for (const int descriptor : {listener, first, second}) close(descriptor);
}
