#include "trap/time/outside_peers.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <set>

#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

sockaddr_storage Name(const char* address, uint16_t port) {
  sockaddr_storage name{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(name);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(name);
  v4.sin_port = htons(port);
  if (inet_pton(AF_INET, address, &v4.sin_addr) == 1) {
    name.ss_family = AF_INET;
  } else {
    name.ss_family = AF_INET6;
    inet_pton(AF_INET6, address, &v6.sin6_addr);
  }
  return name;
}

// Sockets are this process's; whose the peers are is made up.
class OutsidePeersTest : public ::testing::Test {
 protected:
  // Of the loopback; its port.
  static uint16_t Bind(const UniqueFd& file) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    EXPECT_EQ(bind(file.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
    getsockname(file.get(), reinterpret_cast<sockaddr*>(&name), &size);
    return ntohs(name.sin_port);
  }
  static UniqueFd Connected(int type, uint16_t port) {
    UniqueFd file(socket(AF_INET, type | SOCK_CLOEXEC, 0));
    const sockaddr_storage name = Name("127.0.0.1", port);
    EXPECT_EQ(connect(file.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(sockaddr_in)),
              0);
    return file;
  }
  static ino_t InodeOf(const UniqueFd& file) {
    struct stat status {};
    fstat(file.get(), &status);
    return status.st_ino;
  }

  std::set<pid_t> run_;
  std::set<ino_t> sockets_;
  int thorough_ = 0, looks_ = 0;
  OutsidePeers peers_{[this](pid_t process, bool thorough) {
                        thorough_ += thorough ? 1 : 0;
                        return run_.contains(process);
                      },
                      [this](ino_t inode) {
                        ++looks_;
                        return sockets_.contains(inode);
                      }};
};

TEST_F(OutsidePeersTest, OtherMachinesAreElsewhere) {
  for (const char* address : {"203.0.113.9", "2001:db8::9", "::ffff:203.0.113.9"}) {
    EXPECT_TRUE(OutsidePeers::IsElsewhere(Name(address, 80))) << address;
  }
  for (const char* address :
       {"127.0.0.1", "127.0.0.53", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"}) {
    EXPECT_FALSE(OutsidePeers::IsElsewhere(Name(address, 80))) << address;
  }
  EXPECT_FALSE(OutsidePeers::IsElsewhere(sockaddr_storage{}));
}

TEST_F(OutsidePeersTest, ServicesOfThisMachineThatAreAskedWithDatagrams) {
  const UniqueFd service(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const UniqueFd rank(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const uint16_t service_port = Bind(service), rank_port = Bind(rank);
  sockets_.insert(InodeOf(rank));
  EXPECT_TRUE(peers_.IsOutside(Connected(SOCK_DGRAM, service_port).get()));
  EXPECT_FALSE(peers_.IsOutside(Connected(SOCK_DGRAM, rank_port).get()));
  const int looks = looks_;
  EXPECT_TRUE(peers_.IsOutside(Connected(SOCK_DGRAM, service_port).get()));
  EXPECT_EQ(looks_, looks) << "it is known";
  // One that is not connected says whom it sends to.
  const UniqueFd loose(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(peers_.IsOutside(loose.get()));
  const sockaddr_storage to = Name("127.0.0.1", service_port), far = Name("203.0.113.9", 53);
  EXPECT_TRUE(peers_.IsOutside(loose.get(), &to));
  EXPECT_TRUE(peers_.IsOutside(loose.get(), &far));
}

TEST_F(OutsidePeersTest, TcpOnThisMachineIsOfTheRun) {
  const UniqueFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const uint16_t port = Bind(server);
  ASSERT_EQ(listen(server.get(), 1), 0);
  EXPECT_FALSE(peers_.IsOutside(Connected(SOCK_STREAM, port).get()));
}

TEST_F(OutsidePeersTest, UnixSocketsOfProcessesOutside) {
  int own[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, own), 0);
  EXPECT_FALSE(peers_.IsOutside(own[0])) << "made by this process";
  close(own[0]);
  close(own[1]);
  // Of a name that the kernel chooses (unix(7), autobind).
  const UniqueFd server(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  socklen_t size = sizeof name.sun_family;
  ASSERT_EQ(bind(server.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
  size = sizeof name;
  ASSERT_EQ(getsockname(server.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
  // A child that listens, whose socket it is then, and waits to be told that it may go.
  int ready[2], go[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(go[1]);
    listen(server.get(), 1);
    char byte = 0;
    if (write(ready[1], &byte, 1) == 1 && read(go[0], &byte, 1) >= 0) _exit(0);
    _exit(1);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const UniqueFd client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
  EXPECT_TRUE(peers_.IsOutside(client.get()));
  EXPECT_TRUE(peers_.IsOutside(client.get()));
  EXPECT_EQ(thorough_, 1) << "the second time it is known";
  run_.insert(child);
  EXPECT_FALSE(peers_.IsOutside(client.get())) << "a new process with the same number";
  for (const int end : {ready[0], ready[1], go[0], go[1]}) close(end);
}

TEST_F(OutsidePeersTest, OtherFilesHaveNobody) {
  EXPECT_FALSE(peers_.IsOutside(-1));
  EXPECT_FALSE(peers_.IsOutside(STDIN_FILENO));
}

}  // namespace
}  // namespace phantora
