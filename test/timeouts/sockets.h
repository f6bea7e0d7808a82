// Connected sockets of all kinds.
#ifndef PHANTORA_TEST_TIMEOUTS_SOCKETS_H_
#define PHANTORA_TEST_TIMEOUTS_SOCKETS_H_

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/timeouts/ways.h"

struct SocketPair {
  SocketPair(int family, int type);
  ~SocketPair();
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;
  int left, right;
};

// A listening TCP socket on a free port of 127.0.0.1.
class TcpListener {
 public:
  TcpListener();
  ~TcpListener() { close(socket_); }
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;
  int get() const { return socket_; }
  int Connect() const;

 private:
  int socket_;
  sockaddr_in address_{};
};

#endif  // PHANTORA_TEST_TIMEOUTS_SOCKETS_H_
