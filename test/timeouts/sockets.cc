#include "test/timeouts/sockets.h"

namespace {

sockaddr* Generic(sockaddr_in* address) { return reinterpret_cast<sockaddr*>(address); }

sockaddr_in BindToLoopback(int descriptor) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  CHECK(bind(descriptor, Generic(&address), size) == 0);
  CHECK(getsockname(descriptor, Generic(&address), &size) == 0);
  return address;
}

}  // namespace

SocketPair::SocketPair(int family, int type) {
  if (family == AF_UNIX) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0);
    left = ends[0];
    right = ends[1];
  } else if (type == SOCK_STREAM) {
    const TcpListener listener;
    left = listener.Connect();
    right = accept(listener.get(), nullptr, nullptr);
    CHECK(right >= 0);
    const int yes = 1;
    setsockopt(left, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(right, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  } else {
    left = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    right = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in left_address = BindToLoopback(left), right_address = BindToLoopback(right);
    CHECK(connect(left, Generic(&right_address), sizeof right_address) == 0);
    CHECK(connect(right, Generic(&left_address), sizeof left_address) == 0);
  }
}

SocketPair::~SocketPair() {
  close(left);
  close(right);
}

TcpListener::TcpListener() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  address_ = BindToLoopback(socket_);
  CHECK(listen(socket_, 5) == 0);
}

int TcpListener::Connect() const {
  const int result = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = address_;
  CHECK(connect(result, Generic(&address), sizeof address) == 0);
  return result;
}
