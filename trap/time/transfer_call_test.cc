#include "trap/time/transfer_call.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <initializer_list>
#include <limits>
#include <optional>
#include <vector>

#include "trap/linux/fake_listener.h"

namespace phantora {
namespace {

using Kind = TransferCall::Kind;
constexpr uint64_t kNowhere = 8;
// A piece counts with so much at most; the kernel moves no more (MAX_RW_COUNT).
constexpr uint64_t kLongest = uint64_t{1} << 31;

template <typename T>
uint64_t AddressOf(T* object) {
  return reinterpret_cast<uint64_t>(object);
}

// A call of this process.
std::optional<TransferCall> Parse(int call, std::initializer_list<uint64_t> arguments) {
  return TransferCall::Parse(CallOf(getpid(), 1, call, arguments), RemoteMemory(getpid()));
}

TEST(TransferCallTest, OtherCallsAreNone) {
  for (const int call : {SYS_pread64, SYS_open, SYS_nanosleep, SYS_connect, -1}) {
    EXPECT_EQ(Parse(call, {}), std::nullopt) << call;
  }
}

TEST(TransferCallTest, KnowsWhichWayBytesGo) {
  const struct {
    int call;
    Kind kind;
    bool on_files;
  } calls[] = {{SYS_read, Kind::kReceive, true},      {SYS_write, Kind::kSend, true},
               {SYS_readv, Kind::kReceive, true},     {SYS_writev, Kind::kSend, true},
               {SYS_recvfrom, Kind::kReceive, false}, {SYS_sendto, Kind::kSend, false},
               {SYS_recvmsg, Kind::kReceive, false},  {SYS_sendmsg, Kind::kSend, false},
               {SYS_recvmmsg, Kind::kReceive, false}, {SYS_sendmmsg, Kind::kSend, false},
               {SYS_accept, Kind::kAccept, false},    {SYS_accept4, Kind::kAccept, false}};
  for (const auto& [number, kind, on_files] : calls) {
    const auto call = Parse(number, {7, kNowhere, 0, 0});
    ASSERT_TRUE(call.has_value()) << number;
    EXPECT_EQ(call->kind, kind) << number;
    EXPECT_EQ(call->on_files, on_files) << number;
    EXPECT_EQ(call->descriptor, 7);
    EXPECT_FALSE(call->dont_wait);
    EXPECT_FALSE(call->error_queue);
  }
}

TEST(TransferCallTest, DescriptorsAreIntsWhateverIsAboveThem) {
  EXPECT_EQ(Parse(SYS_read, {0xdead00000003, 0, 1})->descriptor, 3);
  EXPECT_EQ(Parse(SYS_read, {~uint64_t{0}, 0, 1})->descriptor, -1);
}

TEST(TransferCallTest, PlainLengthsAreTakenAsTheyAre) {
  for (const int call : {SYS_read, SYS_write, SYS_recvfrom, SYS_sendto}) {
    EXPECT_EQ(Parse(call, {3, kNowhere, 4'096, 0})->bytes, 4'096u);
    EXPECT_EQ(Parse(call, {3, kNowhere, ~uint64_t{0}, 0})->bytes, ~uint64_t{0});
  }
}

TEST(TransferCallTest, FlagsSayWhetherItWaits) {
  for (const int call : {SYS_recvfrom, SYS_sendto}) {
    EXPECT_TRUE(Parse(call, {3, 0, 1, MSG_DONTWAIT})->dont_wait);
    EXPECT_FALSE(Parse(call, {3, 0, 1, MSG_PEEK})->dont_wait);
  }
  for (const int call : {SYS_recvmsg, SYS_sendmsg}) {
    EXPECT_TRUE(Parse(call, {3, kNowhere, MSG_DONTWAIT})->dont_wait);
  }
  for (const int call : {SYS_recvmmsg, SYS_sendmmsg}) {
    EXPECT_TRUE(Parse(call, {3, kNowhere, 0, MSG_DONTWAIT})->dont_wait);
  }
  const auto errors = Parse(SYS_recvmsg, {3, kNowhere, MSG_ERRQUEUE});
  EXPECT_TRUE(errors->error_queue);
  EXPECT_TRUE(errors->dont_wait) << "the queue of errors is never waited for";
}

TEST(TransferCallTest, PiecesAddUp) {
  std::vector<iovec> pieces = {{nullptr, 3}, {nullptr, 0}, {nullptr, 4}};
  for (const int call : {SYS_readv, SYS_writev}) {
    EXPECT_EQ(Parse(call, {3, AddressOf(pieces.data()), 3})->bytes, 7u);
    EXPECT_EQ(Parse(call, {3, AddressOf(pieces.data()), 0})->bytes, 0u);
    EXPECT_EQ(Parse(call, {3, kNowhere, 3})->bytes, 0u) << "the kernel says EFAULT";
  }
}

TEST(TransferCallTest, HostilePiecesNeitherOverflowNorTakeLong) {
  std::vector<iovec> pieces(1'024, {nullptr, std::numeric_limits<size_t>::max()});
  for (const uint64_t count : {uint64_t{1'024}, uint64_t{1'025}, uint64_t{1} << 40, ~uint64_t{0}}) {
    EXPECT_EQ(Parse(SYS_writev, {3, AddressOf(pieces.data()), count})->bytes, 1'024 * kLongest);
  }
}

TEST(TransferCallTest, PiecesThatEndInMemoryThatIsNotThere) {
  const auto page = static_cast<size_t>(getpagesize());
  auto* memory = static_cast<uint8_t*>(
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(munmap(memory + page, page), 0);
  auto* last = reinterpret_cast<iovec*>(memory + page) - 1;
  *last = {nullptr, 5};
  EXPECT_EQ(Parse(SYS_readv, {3, AddressOf(last), 1})->bytes, 5u);
  EXPECT_EQ(Parse(SYS_readv, {3, AddressOf(last), 2})->bytes, 0u);
  msghdr message{};
  message.msg_iov = last;
  message.msg_iovlen = 2;
  EXPECT_EQ(Parse(SYS_recvmsg, {3, AddressOf(&message), 0})->bytes, 0u);
  munmap(memory, page);
}

TEST(TransferCallTest, MessagesAreTheSumOfTheirPieces) {
  iovec pieces[2] = {{nullptr, 10}, {nullptr, 20}};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = 2;
  EXPECT_EQ(Parse(SYS_sendmsg, {3, AddressOf(&message), 0})->bytes, 30u);
  EXPECT_EQ(Parse(SYS_sendmsg, {3, kNowhere, 0})->bytes, 0u);
  message.msg_iovlen = std::numeric_limits<size_t>::max();
  message.msg_iov = reinterpret_cast<iovec*>(kNowhere);
  EXPECT_EQ(Parse(SYS_recvmsg, {3, AddressOf(&message), 0})->bytes, 0u);
}

TEST(TransferCallTest, ManyMessages) {
  iovec piece{nullptr, 10};
  std::vector<mmsghdr> messages(3);
  for (mmsghdr& message : messages) {
    message.msg_hdr.msg_iov = &piece;
    message.msg_hdr.msg_iovlen = 1;
  }
  const uint64_t at = AddressOf(messages.data());
  EXPECT_EQ(Parse(SYS_sendmmsg, {3, at, 3, 0})->bytes, 30u);
  EXPECT_EQ(Parse(SYS_recvmmsg, {3, at, 2, 0})->bytes, 20u);
  EXPECT_EQ(Parse(SYS_sendmmsg, {3, at, 0xffffffff00000001, 0})->bytes, 10u)
      << "the count is an unsigned int";
  messages[1].msg_hdr.msg_iov = reinterpret_cast<iovec*>(kNowhere);
  EXPECT_EQ(Parse(SYS_sendmmsg, {3, at, 3, 0})->bytes, 20u) << "what can be read";
  EXPECT_EQ(Parse(SYS_sendmmsg, {3, kNowhere, 0xffffffff, 0})->bytes, 0u);
}

}  // namespace
}  // namespace phantora
