// Sockets of the emulated hosts: addresses cut short, ports of others, bytes with wrong lengths.
// Connects only to ports that an attacker itself has bound: nobody else's server is to be
// disturbed.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "test/fuzz/hostile_attacker.h"

namespace phantora::hostile {
namespace {

// What a bind, connect or sendto is given: (address, its length), sound or not.
struct Address {
  sockaddr_storage bytes{};
  uint64_t length = 0;
};

Address SomeAddress(Random& random, int family, uint16_t port) {
  Address address;
  if (family == AF_UNIX) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    // An abstract name; those that begin alike are the attackers' own.
    const int size =
        snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "hostile-%u", random.Below(16));
    memcpy(&address.bytes, &name, sizeof name);
    address.length = offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(size);
  } else if (family == AF_INET6) {
    sockaddr_in6 name{};
    name.sin6_family = AF_INET6;
    name.sin6_addr = in6addr_loopback;
    name.sin6_port = htons(port);
    memcpy(&address.bytes, &name, sizeof name);
    address.length = sizeof name;
  } else {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    name.sin_port = htons(port);
    memcpy(&address.bytes, &name, sizeof name);
    address.length = sizeof name;
  }
  if (random.OneIn(8)) address.length = random.OneIn(2) ? random.Below(130) : random.Boundary();
  return address;
}

}  // namespace

void Attacker::Ports() {
  static constexpr int kFamilies[] = {AF_INET, AF_INET6, AF_UNIX};
  const int family = random_.Of(kFamilies);
  const int type = (random_.OneIn(3) ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC;
  const int server = socket(family, type, 0);
  if (server < 0) return;
  const Address own = SomeAddress(random_, family, 0);
  syscall(SYS_bind, random_.OneIn(16) ? SomeFile() : server, OrSomePointer(&own.bytes), own.length);
  if (random_.OneIn(2)) syscall(SYS_listen, server, random_.Boundary());
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (getsockname(server, reinterpret_cast<sockaddr*>(&bound), &length) != 0) length = 0;
  const int client = socket(family, type, 0);
  const bool has_name = length > sizeof(sa_family_t);
  const uint64_t other_length = random_.OneIn(8) ? random_.Boundary() : length;
  if (client >= 0 && has_name) {
    const uint64_t to = OrSomePointer(&bound);
    if (random_.OneIn(4)) {
      syscall(SYS_sendto, client, OrSomePointer(block_.data()), random_.Below(block_.size()),
              MSG_NOSIGNAL, to, other_length);
    } else {
      syscall(SYS_connect, random_.OneIn(16) ? SomeFile() : client, to, other_length);
    }
  }
  const int accepted = static_cast<int>(
      syscall(SYS_accept4, server, random_.OneIn(2) ? 0 : SomePointer(),
              random_.OneIn(2) ? 0 : SomePointer(),
              random_.OneIn(8) ? random_.Next() : uint64_t{SOCK_NONBLOCK | SOCK_CLOEXEC}));
  if (client >= 0) Transfers(client, accepted >= 0 ? accepted : server);
  if (accepted >= 0) close(accepted);
  if (client >= 0) close(client);
  close(server);
}

void Attacker::Transfers(int from, int to) {
  iovec parts[4];
  for (iovec& part : parts) {
    part.iov_base = reinterpret_cast<void*>(OrSomePointer(block_.data()));
    part.iov_len = random_.OneIn(16) ? random_.Boundary() : random_.Below(4096);
  }
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = random_.OneIn(8) ? random_.Boundary() : random_.Below(5);
  message.msg_control = reinterpret_cast<void*>(random_.OneIn(2) ? 0 : SomePointer());
  message.msg_controllen = message.msg_control == nullptr ? 0 : random_.Below(64);
  switch (random_.Below(4)) {
    case 0:
      syscall(SYS_sendmsg, from, OrSomePointer(&message), MSG_NOSIGNAL | MSG_DONTWAIT);
      syscall(SYS_recvmsg, to, OrSomePointer(&message),
              MSG_DONTWAIT | (random_.OneIn(4) ? MSG_PEEK : 0));
      break;
    case 1:
      syscall(SYS_writev, from, OrSomePointer(parts), random_.OneIn(8) ? random_.Boundary() : 4);
      syscall(SYS_readv, to, OrSomePointer(parts), random_.OneIn(8) ? random_.Boundary() : 4);
      break;
    case 2: {
      mmsghdr messages[2] = {{message, 0}, {message, 0}};
      timespec limit{0, static_cast<int64_t>(random_.Below(50000))};
      syscall(SYS_sendmmsg, from, OrSomePointer(messages),
              random_.OneIn(8) ? random_.Boundary() : 2, MSG_NOSIGNAL);
      syscall(SYS_recvmmsg, to, OrSomePointer(messages), random_.OneIn(8) ? random_.Boundary() : 2,
              MSG_DONTWAIT, OrSomePointer(&limit));
      break;
    }
    default:
      syscall(SYS_write, from, OrSomePointer(block_.data()), random_.Below(block_.size()));
      if (random_.OneIn(2)) shutdown(from, static_cast<int>(random_.Below(4)));
      syscall(SYS_read, to, OrSomePointer(block_.data()), random_.Below(block_.size()));
      break;
  }
}

}  // namespace phantora::hostile
