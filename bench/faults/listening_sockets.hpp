// Finds the sockets at which a process listens for TCP connections, in /proc.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace pipetrain::bench {

struct ListeningSocket {
  sockaddr_storage address{};
  socklen_t size = 0;

  std::uint16_t port() const {
    const bool v4 = address.ss_family == AF_INET;
    return ntohs(v4 ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                    : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  bool is_loopback() const {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    return address.ss_family == AF_INET ? (ntohl(v4.sin_addr.s_addr) >> 24U) == 127 : IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0;
  }
};

// "0100007F:1F90": each 32-bit word of the address in the machine's byte order, then the port.
inline ListeningSocket parse_listening_socket(const std::string& text) {
  ListeningSocket socket;
  const std::size_t digits = text.find(':');
  std::uint32_t words[4] = {};
  for (std::size_t word = 0; word * 8 < digits; ++word)
    words[word] = static_cast<std::uint32_t>(std::stoul(text.substr(word * 8, 8), nullptr, 16));
  const in_port_t port = htons(static_cast<std::uint16_t>(std::stoul(text.substr(digits + 1), nullptr, 16)));
  if (digits == 8) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(socket.address);
    v4.sin_family = AF_INET;
    v4.sin_port = port;
    std::memcpy(&v4.sin_addr, words, sizeof v4.sin_addr);
    socket.size = sizeof v4;
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(socket.address);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = port;
    std::memcpy(&v6.sin6_addr, words, sizeof v6.sin6_addr);
    socket.size = sizeof v6;
  }
  return socket;
}

inline std::vector<ListeningSocket> listening_sockets(pid_t process) {
  const std::filesystem::path folder = "/proc/" + std::to_string(process);
  std::set<std::string> own;  // "socket:[4711]"
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder / "fd", error), end; !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    own.insert(std::filesystem::read_symlink(entry->path(), gone).string());
  }
  std::vector<ListeningSocket> found;
  for (const char* table : {"net/tcp", "net/tcp6"}) {
    std::ifstream lines(folder / table);
    std::string line;
    for (std::getline(lines, line); std::getline(lines, line);) {
      std::istringstream fields(line);
      std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
      if (state == "0A" && own.count("socket:[" + inode + "]") > 0) found.push_back(parse_listening_socket(local));
    }
  }
  return found;
}

// Opens a connection and sends the bytes; the caller closes it. Returns -1 if it is not accepted within a fifth of a second.
inline int shout(const ListeningSocket& to, const std::string& bytes) {
  const int socket = ::socket(to.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  (void)!::connect(socket, reinterpret_cast<const sockaddr*>(&to.address), to.size);
  pollfd connected{socket, POLLOUT, 0};
  int error = ETIMEDOUT;
  socklen_t size = sizeof error;
  if (::poll(&connected, 1, 200) > 0) ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    ::close(socket);
    return -1;
  }
  (void)!::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return socket;
}

// Returns true if the socket answers a connection.
inline bool takes_connections(const ListeningSocket& socket) {
  const int connection = shout(socket, "");
  if (connection >= 0) ::close(connection);
  return connection >= 0;
}

// Messages that strangers might send; a run must ignore each of them.
inline std::vector<std::string> noises() {
  std::vector<std::string> noises = {
      std::string(64, '\0'),
      std::string(64, '\xff'),
      "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
      std::string("\x78\x56\x34\x12\xbe\xba\xfe\xca", 8) + std::string(64, '\xff'),  // UCX's own beginning
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
      "x",
      std::string(100000, 'x')};
  for (std::size_t size : {1, 8, 64, 300, 5000}) {
    std::string random;
    for (std::size_t i = 0; i < size; ++i) random += static_cast<char>((i * 2654435761U + size) >> 7U);
    noises.push_back(random);
  }
  return noises;
}

}  // namespace pipetrain::bench
