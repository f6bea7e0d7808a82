#include "trap/time/message_times.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

constexpr pid_t kSender = 10, kOther = 20;

VirtualTime At(int64_t microseconds) {
  return VirtualTime() + VirtualSpan::Microseconds(microseconds);
}

// A direction of its own.
Conduit Pipe(const std::string& name = "pipe 1 2") {
  Conduit conduit;
  conduit.kind = Conduit::Kind::kPipe;
  conduit.incoming = conduit.outgoing = name;
  return conduit;
}
Conduit Datagrams() {
  Conduit conduit = Pipe("udp a b");
  conduit.kind = Conduit::Kind::kSocket;
  conduit.stream = false;
  return conduit;
}

TEST(MessageTimesTest, WhoReceivesIsNotEarlierThanTheSenderOfTheLastByte) {
  MessageTimes times;
  times.Sent(Pipe(), 10, At(5), kSender);
  times.Sent(Pipe(), 10, At(7), kSender);
  // The kernel holds 20 bytes, of which these are asked for.
  EXPECT_EQ(times.Received(Pipe(), 20, 10), At(5));
  EXPECT_EQ(times.Received(Pipe(), 10, 10), At(7));
}

TEST(MessageTimesTest, AReadOverTheEdgeOfAMessageIsOfTheLater) {
  MessageTimes times;
  times.Sent(Pipe(), 10, At(5), kSender);
  times.Sent(Pipe(), 10, At(7), kSender);
  EXPECT_EQ(times.Received(Pipe(), 20, 11), At(7));
  EXPECT_EQ(times.Received(Pipe(), 9, 100), At(7));
}

TEST(MessageTimesTest, WhatIsReadIsForgotten) {
  MessageTimes times;
  times.Sent(Pipe(), 10, At(5), kSender);
  EXPECT_EQ(times.Received(Pipe(), 10, 10), At(5));
  EXPECT_EQ(times.Received(Pipe(), 0, 10), VirtualTime());
  EXPECT_EQ(times.Received(Pipe("pipe 3 4"), 10, 10), VirtualTime()) << "nobody has sent there";
  times.Sent(Pipe(), 4, At(2), kOther);
  EXPECT_EQ(times.Received(Pipe(), 4, 4), At(2)) << "who sends next starts anew";
}

TEST(MessageTimesTest, TimesOfSeveralSendersDoNotFall) {
  MessageTimes times;
  times.Sent(Pipe(), 10, At(9), kSender);
  times.Sent(Pipe(), 10, At(3), kOther);
  EXPECT_EQ(times.Received(Pipe(), 20, 10), At(9));
  EXPECT_EQ(times.Received(Pipe(), 10, 10), At(9)) << "it comes out behind";
}

TEST(MessageTimesTest, ASendThatIsCutShortMakesReceiversLaterNeverEarlier) {
  MessageTimes times;
  times.Sent(Pipe(), 100, At(5), kSender);  // the kernel took 10
  times.Sent(Pipe(), 10, At(7), kSender);
  EXPECT_GE(times.Received(Pipe(), 20, 10), At(5));
  EXPECT_EQ(times.Received(Pipe(), 10, 10), At(7));
}

TEST(MessageTimesTest, DatagramsCarryTheNewest) {
  MessageTimes times;
  times.Sent(Datagrams(), 10, At(5), kSender);
  times.Sent(Datagrams(), 10, At(7), kSender);
  EXPECT_EQ(times.Received(Datagrams(), 20, 10), At(7));
}

TEST(MessageTimesTest, HostileLengthsAreHarmless) {
  MessageTimes times;
  times.Sent(Pipe(), ~uint64_t{0}, At(5), kSender);
  times.Sent(Pipe(), ~uint64_t{0}, At(6), kSender);
  times.Sent(Pipe(), 0, At(7), kSender);
  EXPECT_LE(times.Received(Pipe(), ~uint64_t{0}, 0), At(7));
  EXPECT_LE(times.Received(Pipe(), 0, ~uint64_t{0}), At(7));
}

TEST(MessageTimesTest, ManyUnreadMessagesShareTheTimeOfTheLatestOfThem) {
  MessageTimes times;
  for (int i = 1; i <= 300; ++i) times.Sent(Pipe(), 1, At(i), kSender);
  // 256 are told apart; the first 45 have become one.
  EXPECT_EQ(times.Received(Pipe(), 300, 1), At(45));
  EXPECT_EQ(times.Received(Pipe(), 255, 1), At(46));
}

TEST(MessageTimesTest, ASenderThatLeavesMuchUnreadForgetsItsOwn) {
  MessageTimes times;
  times.Sent(Pipe("pipe other"), 1, At(4), kOther);
  for (int i = 0; i < 4'097; ++i) times.Sent(Pipe(absl::StrCat("pipe ", i)), 1, At(5), kSender);
  EXPECT_EQ(times.Received(Pipe("pipe 0"), 1, 1), VirtualTime());
  EXPECT_EQ(times.Received(Pipe("pipe 1"), 1, 1), At(5));
  EXPECT_EQ(times.Received(Pipe("pipe other"), 1, 1), At(4));
}

TEST(MessageTimesTest, WhatLeadsNowhereIsNotKept) {
  MessageTimes times;
  times.Sent(Conduit(), 1, At(5), kSender);
  EXPECT_EQ(times.Received(Conduit(), 1, 1), VirtualTime());
}

TEST(MessageTimesTest, FromUnixSocketsWithoutAPeerAnyUnixSocketMayReceive) {
  MessageTimes times;
  Conduit sender = Pipe("unix ?"), receiver = Pipe("unix 77"), tcp = Pipe("tcp a b");
  EXPECT_EQ(times.Received(receiver, 1, 1), VirtualTime());
  times.Sent(sender, 1, At(6), kSender);
  times.Sent(sender, 1, At(4), kSender);
  EXPECT_EQ(times.Received(receiver, 1, 1), At(6));
  EXPECT_EQ(times.Received(tcp, 1, 1), VirtualTime());
  times.Sent(Pipe("unix 77"), 1, At(9), kSender);
  EXPECT_EQ(times.Received(receiver, 1, 1), At(9)) << "the later of both";
}

// --- Conduits, of this process's own descriptors -------------------------------------------------

TEST(ConduitTest, PipesAreOneDirection) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd out(ends[0]), in(ends[1]);
  const Conduit reader = Conduit::Of(out.get()), writer = Conduit::Of(in.get());
  EXPECT_EQ(reader.kind, Conduit::Kind::kPipe);
  EXPECT_EQ(reader.incoming, writer.outgoing);
  EXPECT_TRUE(reader.stream);
  EXPECT_FALSE(reader.nonblocking);
  EXPECT_TRUE(Conduit::MayBe(getpid(), out.get()));
  ASSERT_EQ(fcntl(out.get(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_TRUE(Conduit::Of(out.get()).nonblocking);
}

TEST(ConduitTest, UnixSocketsKnowTheirPeer) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM}) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
    const UniqueFd a(ends[0]), b(ends[1]);
    const Conduit first = Conduit::Of(a.get()), second = Conduit::Of(b.get());
    EXPECT_EQ(first.kind, Conduit::Kind::kSocket);
    EXPECT_EQ(first.stream, type == SOCK_STREAM);
    EXPECT_NE(first.incoming, second.incoming);
    // Unless the kernel does not tell of unix sockets.
    if (first.outgoing != "unix ?") {
      EXPECT_EQ(first.outgoing, second.incoming);
      EXPECT_EQ(second.outgoing, first.incoming);
    }
  }
  const UniqueFd alone(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(Conduit::Of(alone.get()).outgoing, "unix ?");
}

TEST(ConduitTest, BothEndsOfAConnectionAgreeAlsoWhereOneSpeaksIpv6) {
  const UniqueFd listener(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  if (!listener.valid() || bind(listener.get(), reinterpret_cast<sockaddr*>(&any), sizeof any)) {
    GTEST_SKIP() << "this machine has no IPv6";
  }
  ASSERT_EQ(listen(listener.get(), 1), 0);
  socklen_t size = sizeof any;
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&any), &size), 0);
  const UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = any.sin6_port;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  const UniqueFd server(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const Conduit here = Conduit::Of(client.get()), there = Conduit::Of(server.get());
  EXPECT_TRUE(absl::StartsWith(here.outgoing, "tcp 127.0.0.1:")) << here.outgoing;
  EXPECT_EQ(here.outgoing, there.incoming);
  EXPECT_EQ(there.outgoing, here.incoming);
  const Conduit listening = Conduit::Of(listener.get());
  EXPECT_EQ(listening.kind, Conduit::Kind::kSocket);
  EXPECT_FALSE(listening.stream);
  EXPECT_EQ(listening.incoming, "");
}

TEST(ConduitTest, OtherFilesAreNone) {
  const UniqueFd event(eventfd(0, EFD_CLOEXEC)), file(open("/proc/self/exe", O_RDONLY));
  EXPECT_EQ(Conduit::Of(event.get()).kind, Conduit::Kind::kOther);
  EXPECT_EQ(Conduit::Of(file.get()).kind, Conduit::Kind::kOther);
  EXPECT_EQ(Conduit::Of(-1).kind, Conduit::Kind::kOther);
  EXPECT_FALSE(Conduit::MayBe(getpid(), event.get()));
  EXPECT_FALSE(Conduit::MayBe(getpid(), file.get()));
  EXPECT_FALSE(Conduit::MayBe(getpid(), 1'000'000));
  EXPECT_FALSE(Conduit::MayBe(1 << 30, 0));
  const UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  EXPECT_TRUE(Conduit::MayBe(getpid(), timer.get())) << "it has to be told before it is read";
}

}  // namespace
}  // namespace phantora
