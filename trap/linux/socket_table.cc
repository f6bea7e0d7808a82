#include "trap/linux/socket_table.h"

#include <arpa/inet.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "trap/linux/process_tree.h"

namespace phantora {
namespace {

// Of a line: number, local address, remote address, state, queues, timer, retransmissions, user,
// timeout, inode.
constexpr size_t kLocal = 1, kState = 3, kInode = 9;

// Those of `table` whose local address is one of `wanted`.
void AddEntries(const std::string& table, const std::vector<std::string>& wanted,
                std::vector<SocketEntry>& entries) {
  for (const absl::string_view line : absl::StrSplit(table, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() <= kInode) continue;
    for (const std::string& address : wanted) {
      uint64_t inode = 0;
      if (words[kLocal] != address || !absl::SimpleAtoi(words[kInode], &inode)) continue;
      const std::string state(words[kState]);
      entries.push_back({inode, static_cast<int>(std::strtol(state.c_str(), nullptr, 16))});
    }
  }
}

}  // namespace

std::optional<std::vector<SocketEntry>> SocketsAt(const Proc& proc, pid_t process,
                                                  SocketProtocol protocol, in_addr address,
                                                  uint16_t port) {
  const bool tcp = protocol == SocketProtocol::kTcp;
  const std::string v4 = proc.Text(process, tcp ? "net/tcp" : "net/udp");
  const std::string v6 = proc.Text(process, tcp ? "net/tcp6" : "net/udp6");
  if (v4.empty()) return std::nullopt;  // a line of titles is always there
  // Addresses are the words of memory that they are.
  const std::string name = absl::StrFormat("%08X:%04X", address.s_addr, port);
  std::vector<std::string> names6 = {absl::StrFormat("%016X%08X%s", 0, htonl(0xffff), name)};
  if (address.s_addr == INADDR_ANY) names6.push_back(absl::StrFormat("%032X:%04X", 0, port));
  std::vector<SocketEntry> entries;
  AddEntries(v4, {name}, entries);
  AddEntries(v6, names6, entries);
  return entries;
}

bool DescendantHasSocket(ino_t inode) {
  const std::string wanted = absl::StrCat("socket:[", inode, "]");
  std::error_code error;
  for (const pid_t process : Descendants()) {
    std::filesystem::directory_iterator files(absl::StrCat("/proc/", process, "/fd"), error);
    for (; !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
      if (std::filesystem::read_symlink(files->path(), error) == wanted) return true;
    }
  }
  return false;
}

}  // namespace phantora
