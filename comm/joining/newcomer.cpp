#include "comm/joining/newcomer.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "comm/control/handshake.hpp"
#include "comm/control/reasons.hpp"
#include "core/error.hpp"

namespace pipetrain::control {

Newcomer::Newcomer(const Rendezvous& rendezvous) : rendezvous_(rendezvous) {
  try {
    connect();
    const auto token = std::as_bytes(std::span(rendezvous_.token));
    send({.kind = FrameKind::token, .payload = Bytes(token.begin(), token.end())});
    send({.kind = FrameKind::hello, .payload = to_bytes(hello_of(rendezvous_))});
    invitation_ = receive(FrameKind::accepted).payload;
  } catch (...) {
    if (socket_ >= 0) ::close(socket_);
    throw;
  }
}

Newcomer::~Newcomer() { ::close(socket_); }

void Newcomer::fail(const std::string& why) const {
  throw Error(ErrorKind::peer_lost,
              "the run at " + address_text(rendezvous_.host, rendezvous_.port) + " cannot be joined: " + why);
}

void Newcomer::connect() {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(rendezvous_.host.c_str(), std::to_string(rendezvous_.port).c_str(), &hints, &found))
    fail(std::string("the host's address is unknown (") + ::gai_strerror(error) + ")");
  int error = ECONNREFUSED;
  for (const addrinfo* entry = found; entry != nullptr && socket_ < 0; entry = entry->ai_next) {
    socket_ = ::socket(entry->ai_family, entry->ai_socktype | SOCK_CLOEXEC, entry->ai_protocol);
    if (socket_ >= 0 && ::connect(socket_, entry->ai_addr, entry->ai_addrlen) == 0) break;
    error = errno;
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  ::freeaddrinfo(found);
  if (socket_ < 0)
    fail(std::string(std::strerror(error)) + "; the run has ended, or another process leads it now at another address");
}

void Newcomer::send(const Frame& frame) const {
  const auto header = header_of(frame);
  Bytes bytes(header.begin(), header.end());
  bytes.insert(bytes.end(), frame.payload.begin(), frame.payload.end());
  for (std::size_t sent = 0; sent < bytes.size();) {
    const auto count = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(std::strerror(errno));
    sent += static_cast<std::size_t>(count);
  }
}

Frame Newcomer::receive(FrameKind wanted) {
  const auto end = std::chrono::steady_clock::now() + rendezvous_.timeout;
  for (;;) {
    if (auto frame = reader_.next()) {
      if (frame->kind == FrameKind::refused) throw to_error(read_message<Refusal>(frame->payload));
      if (frame->kind != wanted) fail("it sent a message that a newcomer does not expect");
      return std::move(*frame);
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd asked{socket_, POLLIN, 0};
    if (left.count() <= 0) fail("process 0 has not answered within " + seconds_text(rendezvous_.timeout));
    if (::poll(&asked, 1, static_cast<int>(left.count())) <= 0) continue;
    const auto space = reader_.space();
    const auto count = ::recv(socket_, space.data(), space.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("it has ended, or has changed before this process could join");
    reader_.received(static_cast<std::size_t>(count));
  }
}

Call Newcomer::wait_for_call(const JobContents& contents) {
  send({.kind = FrameKind::ready, .payload = to_bytes(contents)});
  return read_call(receive(FrameKind::called).payload);
}

}  // namespace pipetrain::control
