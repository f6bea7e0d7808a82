#include "trap/host/port_calls.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "trap/linux/fake_listener.h"
#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

// Two hosts; calls are this process's own, and sockets real ones.
class PortCallsTest : public testing::Test {
 protected:
  PortCallsTest() {
    tracee_.pidfd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  }

  static in_addr Address(const char* text) {
    in_addr address{};
    inet_pton(AF_INET, text, &address);
    return address;
  }
  static sockaddr_in Name(const char* address, uint16_t port) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr = Address(address);
    name.sin_port = htons(port);
    return name;
  }
  static sockaddr_in NameOf(int socket) {
    sockaddr_in name{};
    socklen_t size = sizeof name;
    getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size);
    return name;
  }
  UniqueFd Socket(int type = SOCK_STREAM) {
    UniqueFd made(socket(AF_INET, type | SOCK_CLOEXEC, 0));
    struct stat status {};
    fstat(made.get(), &status);
    alive_.insert(status.st_ino);
    return made;
  }
  void Close(UniqueFd& socket) {
    struct stat status {};
    fstat(socket.get(), &status);
    alive_.erase(status.st_ino);
    socket.reset();
  }
  FakeListener::Answer Do(int call, const UniqueFd& socket, sockaddr_in& name, int host) {
    tracee_.host = host;
    const seccomp_notif made = listener_.Call(
        getpid(), call,
        {static_cast<uint64_t>(socket.get()), reinterpret_cast<uintptr_t>(&name), sizeof name});
    EXPECT_TRUE(calls_.Serve(TrappedCall(made, tracee_, listener_)));
    return listener_.AnswerOf(made).value_or(FakeListener::Answer());
  }
  FakeListener::Answer Bind(const UniqueFd& socket, uint16_t port, int host,
                            const char* address = "0.0.0.0") {
    sockaddr_in name = Name(address, port);
    return Do(SYS_bind, socket, name, host);
  }
  // A port that nobody has at the moment.
  static uint16_t FreePort() {
    const UniqueFd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in any = Name("0.0.0.0", 0);
    bind(probe.get(), reinterpret_cast<sockaddr*>(&any), sizeof any);
    return ntohs(NameOf(probe.get()).sin_port);
  }

  std::set<ino_t> alive_;
  FakeListener listener_;
  Tracee tracee_{getpid()};
  PortCalls calls_{{Address("127.77.0.1"), Address("127.77.0.2")},
                   [this](ino_t socket) { return alive_.contains(socket); }};
};

TEST_F(PortCallsTest, HostsMayHaveTheSamePort) {
  const uint16_t port = FreePort();
  const UniqueFd one = Socket(), two = Socket(), again = Socket();
  EXPECT_EQ(Bind(one, port, 0), FakeListener::Value(0));
  EXPECT_EQ(Bind(two, port, 1), FakeListener::Value(0));
  EXPECT_EQ(NameOf(one.get()).sin_addr.s_addr, Address("127.77.0.1").s_addr);
  EXPECT_EQ(NameOf(two.get()).sin_addr.s_addr, Address("127.77.0.2").s_addr);
  EXPECT_EQ(Bind(again, port, 1).error, EADDRINUSE);
}

TEST_F(PortCallsTest, APortThatAStrangerHasIsAnotherOneReally) {
  const uint16_t port = FreePort();
  const UniqueFd stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in taken = Name("0.0.0.0", port);
  ASSERT_EQ(bind(stranger.get(), reinterpret_cast<sockaddr*>(&taken), sizeof taken), 0);
  const UniqueFd server = Socket(), client = Socket();
  EXPECT_EQ(Bind(server, port, 0), FakeListener::Value(0));
  EXPECT_NE(ntohs(NameOf(server.get()).sin_port), port);
  ASSERT_EQ(listen(server.get(), 1), 0);
  // Who connects is led there.
  sockaddr_in name = Name("127.0.0.1", port);
  EXPECT_EQ(Do(SYS_connect, client, name, 0), FakeListener::Continue());
  EXPECT_EQ(name.sin_port, NameOf(server.get()).sin_port);
}

TEST_F(PortCallsTest, AServerThatHasEndedLeavesItsPort) {
  const uint16_t port = FreePort();
  const UniqueFd stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in taken = Name("0.0.0.0", port);
  ASSERT_EQ(bind(stranger.get(), reinterpret_cast<sockaddr*>(&taken), sizeof taken), 0);
  UniqueFd first = Socket();
  ASSERT_EQ(Bind(first, port, 0), FakeListener::Value(0));
  const UniqueFd second = Socket();
  EXPECT_EQ(Bind(second, port, 0).error, EADDRINUSE);
  Close(first);
  // Nobody of the host has it now, but the stranger still: it can be had all the same.
  EXPECT_EQ(Bind(second, port, 0), FakeListener::Value(0));
}

TEST_F(PortCallsTest, NobodyIsLedToWhereAServerWas) {
  const uint16_t port = FreePort();
  const UniqueFd stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in taken = Name("0.0.0.0", port);
  ASSERT_EQ(bind(stranger.get(), reinterpret_cast<sockaddr*>(&taken), sizeof taken), 0);
  UniqueFd server = Socket();
  ASSERT_EQ(Bind(server, port, 0), FakeListener::Value(0));
  Close(server);
  const UniqueFd client = Socket();
  sockaddr_in name = Name("127.0.0.1", port);
  EXPECT_EQ(Do(SYS_connect, client, name, 0), FakeListener::Continue());
  EXPECT_EQ(ntohs(name.sin_port), port);
}

TEST_F(PortCallsTest, NobodyIsLedToAStrangersServer) {
  const uint16_t port = FreePort();
  const UniqueFd stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in taken = Name("0.0.0.0", port);
  ASSERT_EQ(bind(stranger.get(), reinterpret_cast<sockaddr*>(&taken), sizeof taken), 0);
  ASSERT_EQ(listen(stranger.get(), 1), 0);
  // Of a host that has no server there: not yet, bound only, not any more.
  sockaddr_in name = Name("127.77.0.2", port);
  EXPECT_EQ(Do(SYS_connect, Socket(), name, 0).error, ECONNREFUSED);
  UniqueFd server = Socket();
  ASSERT_EQ(Bind(server, port, 1), FakeListener::Value(0));
  EXPECT_EQ(Do(SYS_connect, Socket(), name, 0).error, ECONNREFUSED);
  sockaddr_in loopback = Name("127.0.0.1", port);
  EXPECT_EQ(Do(SYS_connect, Socket(), loopback, 1).error, ECONNREFUSED);
  ASSERT_EQ(listen(server.get(), 1), 0);
  sockaddr_in led = name;
  EXPECT_EQ(Do(SYS_connect, Socket(), led, 0), FakeListener::Continue());
  EXPECT_EQ(led.sin_port, NameOf(server.get()).sin_port);
  Close(server);
  EXPECT_EQ(Do(SYS_connect, Socket(), name, 0).error, ECONNREFUSED);
  // A datagram's peer is the kernel's.
  EXPECT_EQ(Do(SYS_connect, Socket(SOCK_DGRAM), name, 0), FakeListener::Continue());
  // The stranger may be what the loopback was asked for.
  EXPECT_EQ(Do(SYS_connect, Socket(), loopback, 1), FakeListener::Continue());
}

TEST_F(PortCallsTest, AnyPortIsTold) {
  const UniqueFd server = Socket(), client = Socket();
  EXPECT_EQ(Bind(server, 0, 1), FakeListener::Value(0));
  ASSERT_EQ(listen(server.get(), 1), 0);
  sockaddr_in name = Name("127.0.0.1", ntohs(NameOf(server.get()).sin_port));
  EXPECT_EQ(Do(SYS_connect, client, name, 1), FakeListener::Continue());
  EXPECT_EQ(name.sin_addr.s_addr, Address("127.77.0.2").s_addr);
}

TEST_F(PortCallsTest, OtherSocketsAndAddressesAreTheKernels) {
  const UniqueFd datagrams = Socket(SOCK_DGRAM), stream = Socket();
  EXPECT_EQ(Bind(datagrams, 0, 0), FakeListener::Continue());
  EXPECT_EQ(Bind(stream, 0, 0, "192.0.2.1"), FakeListener::Continue());
  EXPECT_EQ(Bind(UniqueFd(), 0, 0), FakeListener::Continue());
  sockaddr_in service = Name("127.0.0.1", 9);  // a service of the machine, for all that is known
  EXPECT_EQ(Do(SYS_connect, stream, service, 0), FakeListener::Continue());
  EXPECT_EQ(service.sin_addr.s_addr, Address("127.0.0.1").s_addr);
}

TEST_F(PortCallsTest, AddressesThatCannotBeReadAreTheKernels) {
  const UniqueFd stream = Socket();
  for (const uint64_t length : {uint64_t{0}, uint64_t{3}, uint64_t{16}, ~uint64_t{0}}) {
    const seccomp_notif call =
        listener_.Call(getpid(), SYS_bind, {static_cast<uint64_t>(stream.get()), 8, length});
    EXPECT_TRUE(calls_.Serve(TrappedCall(call, tracee_, listener_)));
    EXPECT_EQ(listener_.AnswerOf(call), FakeListener::Continue());
  }
}

}  // namespace
}  // namespace phantora
