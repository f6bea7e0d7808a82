#include "trap/linux/descriptor_copy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace phantora {
namespace {

UniqueFd Self() { return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0))); }

// Two ends of a connection whose first has sent more than is taken.
struct FullConnection {
  FullConnection() {
    const UniqueFd listener(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
    sender = UniqueFd(socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(connect(sender.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
    receiver = UniqueFd(accept(listener.get(), nullptr, nullptr));
    fcntl(sender.get(), F_SETFL, O_NONBLOCK);
    const std::vector<char> bytes(64 << 10);
    for (ssize_t now = 0; (now = write(sender.get(), bytes.data(), bytes.size())) > 0;) sent += now;
    EXPECT_EQ(errno, EAGAIN);
    fcntl(sender.get(), F_SETFL, 0);
  }
  // Everything, to the end.
  int64_t Drain() {
    std::vector<char> bytes(64 << 10);
    int64_t all = 0;
    for (ssize_t now = 0; (now = read(receiver.get(), bytes.data(), bytes.size())) > 0;) all += now;
    return all;
  }

  UniqueFd sender, receiver;
  int64_t sent = 0;
};

TEST(DescriptorCopyTest, IsOfTheSameFile) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd self = Self();
  {
    const DescriptorCopy copy = DescriptorCopy::Of(self.get(), ends[1]);
    ASSERT_TRUE(copy.valid());
    EXPECT_EQ(write(copy.get(), "x", 1), 1);
  }
  close(ends[1]);
  char bytes[2];
  EXPECT_EQ(read(ends[0], bytes, 2), 1);
  EXPECT_EQ(read(ends[0], bytes, 2), 0) << "the copy is closed";
  close(ends[0]);
  EXPECT_FALSE(DescriptorCopy::Of(self.get(), 99999).valid());
  EXPECT_EQ(errno, EBADF);
}

// An hour; nobody reads before the copy has been closed.
TEST(DescriptorCopyTest, TheLastOfALingeringSocketDoesNotKeepAnybody) {
  FullConnection connection;
  const linger hour{.l_onoff = 1, .l_linger = 3600};
  ASSERT_EQ(setsockopt(connection.sender.get(), SOL_SOCKET, SO_LINGER, &hour, sizeof hour), 0);
  DescriptorCopy copy = DescriptorCopy::Of(Self().get(), connection.sender.get());
  ASSERT_TRUE(copy.valid());
  connection.sender.reset();  // it is not the last
  copy.reset();
  EXPECT_FALSE(copy.valid());
  EXPECT_EQ(connection.Drain(), connection.sent) << "and it is closed in the end";
}

TEST(DescriptorCopyTest, OthersAreClosedAtOnce) {
  FullConnection connection;
  const int number = connection.sender.get();
  DescriptorCopy copy(std::move(connection.sender));
  copy.reset();
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
  EXPECT_EQ(connection.Drain(), connection.sent);
}

}  // namespace
}  // namespace phantora
