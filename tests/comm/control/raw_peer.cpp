#include "comm/control/raw_peer.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "comm/control/control_fixture.hpp"
#include "comm/control/loopback.hpp"
#include "core/error.hpp"
#include "wait_until.hpp"

namespace pipetrain::test {
RawPeer::RawPeer(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const timeval limit{10, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const sockaddr_in address = loopback(port);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return;
  ::close(socket_);
  throw std::runtime_error("cannot connect");
}

RawPeer::~RawPeer() { close(); }

void RawPeer::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

bool RawPeer::hang_up() {
  ::shutdown(socket_, SHUT_WR);
  while (receive()) {
  }
  char more = 0;
  const bool closed = ::recv(socket_, &more, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
  close();
  return closed;
}

std::unique_ptr<RawPeer> connect_when_ready(std::uint16_t port) {
  std::unique_ptr<RawPeer> peer;
  const bool listens = wait_until([&] {
    try {
      peer = std::make_unique<RawPeer>(port);
    } catch (const std::runtime_error&) {
    }
    return peer != nullptr;
  });
  if (!listens) throw std::runtime_error("nobody listens");
  return peer;
}

bool RawPeer::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawPeer::send(const control::Frame& frame) { return send(bytes_of(frame)); }

void RawPeer::greet(const Rendezvous& rendezvous) {
  send({.kind = control::FrameKind::token, .payload = bytes_of(rendezvous.token)});
  send({.kind = control::FrameKind::hello, .payload = to_bytes(control::hello_of(rendezvous))});
}

std::optional<control::Frame> RawPeer::receive() {
  for (;;) {
    if (auto frame = reader_.next()) return frame;
    const auto space = reader_.space();
    const ssize_t bytes = ::recv(socket_, space.data(), space.size(), 0);
    if (bytes <= 0) return std::nullopt;
    reader_.received(static_cast<std::size_t>(bytes));
  }
}

std::string RawPeer::refusal() {
  while (const auto frame = receive()) {
    if (frame->kind == control::FrameKind::refused) return to_error(read_message<control::Refusal>(frame->payload)).what();
  }
  return "nothing";
}

Bytes bytes_of(const control::Frame& frame) {
  const auto header = control::header_of(frame);
  Bytes bytes(header.size() + frame.payload.size());
  std::copy(header.begin(), header.end(), bytes.begin());
  std::copy(frame.payload.begin(), frame.payload.end(), bytes.begin() + header.size());
  return bytes;
}

struct FakeServer::State {
  int socket = -1;
  Bytes answer;
  std::vector<int> connections;
  std::thread thread;
};

FakeServer::FakeServer(std::uint16_t port, Bytes answer) : state_(std::make_unique<State>()) {
  state_->answer = std::move(answer);
  state_->socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  if (::bind(state_->socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(state_->socket, 8) != 0)
    throw std::runtime_error("cannot listen");
  state_->thread = std::thread([state = state_.get()] {
    for (;;) {
      const int connection = ::accept(state->socket, nullptr, nullptr);
      if (connection < 0) return;
      state->connections.push_back(connection);
      ::send(connection, state->answer.data(), state->answer.size(), MSG_NOSIGNAL);
    }
  });
}

FakeServer::~FakeServer() {
  ::shutdown(state_->socket, SHUT_RDWR);  // wakes accept()
  state_->thread.join();
  ::close(state_->socket);
  for (const int connection : state_->connections) ::close(connection);
}

}  // namespace pipetrain::test
