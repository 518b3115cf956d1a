// A browser for tests: one request over a raw socket, and its answer.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

namespace pipetrain::test {

// A connection to 127.0.0.1; ends with the scope.
class RawClient {
 public:
  explicit RawClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval limit{.tv_sec = 30, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { ::close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void send(const std::string& text) const { (void)::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
  // Reads until the server ends the connection.
  std::string rest() const {
    std::string text;
    char bytes[4096];
    for (ssize_t got = 0; (got = ::recv(socket_, bytes, sizeof bytes, 0)) > 0;)
      text.append(bytes, static_cast<std::size_t>(got));
    return text;
  }

 private:
  int socket_;
  bool connected_ = false;
};

struct Answer {
  int status = 0;  // 0: there was none
  std::string headers, body;
};

inline Answer answer_of(const std::string& text) {
  const std::size_t end = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 ") || end == std::string::npos) return {};
  return {std::stoi(text.substr(9, 3)), text.substr(0, end + 2), text.substr(end + 4)};
}

// header: further lines, each with its "\r\n".
inline Answer http_get(int port, const std::string& target, const std::string& header = "") {
  const RawClient client(port);
  client.send("GET " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + header + "\r\n");
  return answer_of(client.rest());
}

}  // namespace pipetrain::test
