#include "trap/time/message_times.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace phantora {
namespace {

// Messages told apart in one direction; more share the time of the latest of them.
constexpr size_t kMostMessages = 256;
// Directions with unread messages. More are forgotten, the lot.
constexpr size_t kMostConduits = 1 << 20, kMostOfSender = 4096;
constexpr char kUnknownUnix[] = "unix ?";

// The inode of the socket that the unix socket `inode` is connected to; 0 if it is not
// told (unix_diag: linux/unix_diag.h UDIAG_SHOW_PEER).
uint32_t UnixPeer(uint64_t inode) {
  static const UniqueFd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  struct {
    nlmsghdr header;
    unix_diag_req body;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = AF_UNIX;
  request.body.udiag_states = ~0u;
  request.body.udiag_ino = static_cast<uint32_t>(inode);
  request.body.udiag_show = UDIAG_SHOW_PEER;
  request.body.udiag_cookie[0] = request.body.udiag_cookie[1] = ~0u;
  if (send(netlink.get(), &request, sizeof request, 0) != sizeof request) return 0;
  alignas(nlmsghdr) char answer[1024];
  const ssize_t length = recv(netlink.get(), answer, sizeof answer, MSG_DONTWAIT);
  const auto* header = reinterpret_cast<const nlmsghdr*>(answer);
  if (length < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(unix_diag_msg))) ||
      header->nlmsg_type != SOCK_DIAG_BY_FAMILY) {
    return 0;
  }
  auto left = static_cast<int>(length - NLMSG_LENGTH(sizeof(unix_diag_msg)));
  const auto* attribute =
      reinterpret_cast<const rtattr*>(answer + NLMSG_LENGTH(sizeof(unix_diag_msg)));
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    uint32_t peer;
    if (attribute->rta_type != UNIX_DIAG_PEER || RTA_PAYLOAD(attribute) < sizeof peer) continue;
    std::memcpy(&peer, RTA_DATA(attribute), sizeof peer);
    return peer;
  }
  return 0;
}

// An end of an internet connection; IPv4 in IPv6 is IPv4.
std::string Endpoint(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return absl::StrCat(text, ":", v4.sin_port);
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof text);
  } else {
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  }
  return absl::StrCat(text, ":", v6.sin6_port);
}

void NameSocket(int file, uint64_t inode, Conduit& conduit) {
  int type = 0, listens = 0;
  socklen_t size = sizeof type;
  getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &size);
  size = sizeof listens;
  getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
  conduit.stream = type == SOCK_STREAM && listens == 0;
  if (listens != 0) return;
  sockaddr_storage local{}, peer{};
  size = sizeof local;
  if (getsockname(file, reinterpret_cast<sockaddr*>(&local), &size) != 0) return;
  if (local.ss_family == AF_UNIX) {
    conduit.incoming = absl::StrCat("unix ", inode);
    const uint32_t other = UnixPeer(inode);
    conduit.outgoing = other == 0 ? kUnknownUnix : absl::StrCat("unix ", other);
    return;
  }
  if (local.ss_family != AF_INET && local.ss_family != AF_INET6) return;
  size = sizeof peer;
  if (getpeername(file, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return;
  const std::string here = Endpoint(local), there = Endpoint(peer);
  const char* protocol = type == SOCK_STREAM ? "tcp " : "udp ";
  conduit.incoming = absl::StrCat(protocol, there, " ", here);
  conduit.outgoing = absl::StrCat(protocol, here, " ", there);
}

}  // namespace

Conduit Conduit::Of(int file) {
  Conduit conduit;
  struct stat status;
  if (fstat(file, &status) != 0) return conduit;
  const int flags = fcntl(file, F_GETFL);
  conduit.nonblocking = (flags & O_NONBLOCK) != 0;
  conduit.receives = (flags & O_ACCMODE) != O_WRONLY;
  conduit.sends = (flags & O_ACCMODE) != O_RDONLY;
  if (S_ISFIFO(status.st_mode)) {
    conduit.kind = Kind::kPipe;
    conduit.incoming = conduit.outgoing = absl::StrCat("pipe ", status.st_dev, " ", status.st_ino);
  } else if (S_ISSOCK(status.st_mode)) {
    conduit.kind = Kind::kSocket;
    NameSocket(file, status.st_ino, conduit);
  }
  return conduit;
}

bool Conduit::MayBe(pid_t thread, int descriptor) {
  char path[64], target[32];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", thread, descriptor);
  const ssize_t length = readlink(path, target, sizeof target);
  const absl::string_view name(target, static_cast<size_t>(std::max<ssize_t>(length, 0)));
  return absl::StartsWith(name, "pipe:") || absl::StartsWith(name, "socket:") ||
         absl::StartsWith(name, "anon_inode:[timerfd]");
}

void MessageTimes::Sent(const Conduit& conduit, uint64_t bytes, VirtualTime now, pid_t sender) {
  if (conduit.outgoing.empty()) return;
  if (conduit.outgoing == kUnknownUnix) {
    unknown_ = std::max(unknown_, now);
    any_unknown_ = true;
    return;
  }
  if (conduits_.size() >= kMostConduits) conduits_.clear();
  auto [known, made] = conduits_.try_emplace(conduit.outgoing);
  if (made) {
    // A process that leaves much unread forgets its own.
    auto& sent = senders_[sender];
    sent.push_back(conduit.outgoing);
    if (sent.size() > kMostOfSender) {
      if (sent.front() != conduit.outgoing) conduits_.erase(sent.front());
      sent.pop_front();
    }
    known = conduits_.find(conduit.outgoing);
  }
  auto& messages = known->second;
  // Times do not fall: bytes that several processes send come out in the order of the
  // sends.
  const VirtualTime time = messages.empty() ? now : std::max(messages.back().time, now);
  if (!messages.empty() && messages.back().time == time && conduit.stream) {
    messages.back().bytes += bytes;
    return;
  }
  messages.push_back({time, bytes});
  if (messages.size() <= kMostMessages) return;
  messages[1].bytes += messages[0].bytes;
  messages.pop_front();
}

VirtualTime MessageTimes::Received(const Conduit& conduit, uint64_t unread, uint64_t wanted) {
  const bool from_unknown = any_unknown_ && conduit.incoming.rfind("unix", 0) == 0;
  VirtualTime time = from_unknown ? unknown_ : VirtualTime();
  auto it = conduits_.find(conduit.incoming);
  if (it == conduits_.end()) return time;
  auto& messages = it->second;
  // What stays unread afterwards is the newest.
  const uint64_t left = conduit.stream && unread > wanted ? unread - wanted : 0;
  uint64_t newer = 0;
  for (size_t i = messages.size(); i-- > 0;) {
    newer += messages[i].bytes;
    if (newer <= left) continue;
    time = std::max(time, messages[i].time);
    messages.erase(messages.begin(), messages.begin() + static_cast<ptrdiff_t>(i));
    break;
  }
  // All is read: who sends next starts anew.
  if (left == 0) conduits_.erase(it);
  return time;
}

}  // namespace phantora
