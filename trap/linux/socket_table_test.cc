#include "trap/linux/socket_table.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trap/linux/fake_proc.h"
#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

ino_t InodeOf(const UniqueFd& file) {
  struct stat status {};
  fstat(file.get(), &status);
  return status.st_ino;
}

in_addr Address(const char* text) {
  in_addr address{};
  inet_pton(AF_INET, text, &address);
  return address;
}

// A socket of this process at `address`, whose port the kernel chooses.
struct Bound {
  Bound(int family, int type, const char* address) : file(socket(family, type | SOCK_CLOEXEC, 0)) {
    sockaddr_in6 name{};
    socklen_t size = sizeof name;
    if (family == AF_INET) {
      auto& v4 = reinterpret_cast<sockaddr_in&>(name);
      v4.sin_family = AF_INET;
      v4.sin_addr = Address(address);
      size = sizeof v4;
    } else {
      name.sin6_family = AF_INET6;
      inet_pton(AF_INET6, address, &name.sin6_addr);
    }
    there = bind(file.get(), reinterpret_cast<sockaddr*>(&name), size) == 0;
    getsockname(file.get(), reinterpret_cast<sockaddr*>(&name), &size);
    port = ntohs(name.sin6_port);
  }
  std::optional<std::vector<SocketEntry>> Found(SocketProtocol protocol, const char* at) const {
    return SocketsAt(Proc::Host(), getpid(), protocol, Address(at), port);
  }

  const UniqueFd file;
  bool there = false;  // IPv6 may be off
  uint16_t port = 0;
};

TEST(SocketTable, SocketsAreAtTheirAddressAlone) {
  const Bound server(AF_INET, SOCK_STREAM, "127.77.0.3");
  ASSERT_EQ(listen(server.file.get(), 1), 0);
  const auto found = server.Found(SocketProtocol::kTcp, "127.77.0.3");
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().inode, InodeOf(server.file));
  EXPECT_EQ(found->front().state, TCP_LISTEN);
  EXPECT_TRUE(server.Found(SocketProtocol::kTcp, "127.77.0.4")->empty());
  EXPECT_TRUE(server.Found(SocketProtocol::kTcp, "0.0.0.0")->empty());
  EXPECT_TRUE(server.Found(SocketProtocol::kUdp, "127.77.0.3")->empty());
}

TEST(SocketTable, DatagramsAndIpv6) {
  const Bound datagrams(AF_INET, SOCK_DGRAM, "127.77.0.3");
  ASSERT_EQ(datagrams.Found(SocketProtocol::kUdp, "127.77.0.3")->size(), 1u);
  const Bound mapped(AF_INET6, SOCK_DGRAM, "::ffff:127.77.0.5");
  if (!mapped.there) GTEST_SKIP() << "no IPv6 here";
  const auto found = mapped.Found(SocketProtocol::kUdp, "127.77.0.5");
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().inode, InodeOf(mapped.file));
  const Bound any(AF_INET6, SOCK_DGRAM, "::");
  ASSERT_EQ(any.Found(SocketProtocol::kUdp, "0.0.0.0")->size(), 1u);
  EXPECT_EQ(any.Found(SocketProtocol::kUdp, "0.0.0.0")->front().inode, InodeOf(any.file));
}

TEST(SocketTable, WhereThereIsNoTableNothingIsKnown) {
  EXPECT_EQ(SocketsAt(FakeProc(), 5'000'001, SocketProtocol::kTcp, Address("127.0.0.1"), 1),
            std::nullopt);
}

TEST(SocketTable, SocketsOfChildrenAreTheRuns) {
  const UniqueFd own(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(DescendantHasSocket(InodeOf(own)));
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    close(go[1]);
    _exit(read(go[0], &byte, 1) >= 0 ? 0 : 1);
  }
  EXPECT_TRUE(DescendantHasSocket(InodeOf(own)));
  close(go[0]);
  close(go[1]);
}

}  // namespace
}  // namespace phantora
