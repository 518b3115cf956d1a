#include "comm/control/connection.hpp"

#include <fcntl.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/control/reasons.hpp"
#include "core/error.hpp"

namespace pipetrain::control {
namespace {

constexpr std::size_t most_frames_a_write = 16;

std::string reason_of(const error_code& error) {
  if (error == asio::error::eof || error == asio::error::connection_reset || error == asio::error::broken_pipe)
    return closed_reason;
  return "its connection failed: " + error.message();
}

}  // namespace

Connection::Connection(tcp::socket socket, const Settings& settings, std::size_t most_payload)
    : socket_(std::move(socket)), farewell_(socket_.get_executor()), settings_(settings), reader_(most_payload) {
  ::fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);  // a child process must not keep it open after this process's end
  error_code ignored;                                     // a connection that has broken already: reading will report it
  socket_.set_option(tcp::no_delay(true), ignored);
}

asio::ip::address Connection::local_address() const {
  error_code broken;
  const auto end = socket_.local_endpoint(broken);
  return broken ? asio::ip::address() : end.address();
}

asio::ip::address Connection::remote_address() const {
  error_code broken;
  const auto end = socket_.remote_endpoint(broken);
  return broken ? asio::ip::address() : end.address();
}

void Connection::start(ConnectionOwner& owner) {
  owner_ = &owner;
  read();
}

void Connection::read() {
  const auto space = reader_.space();
  socket_.async_read_some(
      asio::buffer(space.data(), space.size()),
      [self = shared_from_this()](const error_code& error, std::size_t bytes) { self->was_read(error, bytes); });
}

void Connection::was_read(const error_code& error, std::size_t bytes) {
  if (!open()) return;
  if (error == asio::error::eof && finishing_ && writing_) {
    heard_all_ = true;  // was_written() continues
    return;
  }
  if (error) return end(reason_of(error));
  heard_ = Clock::now();
  if (finishing_) {
    reader_.clear();
  } else {
    reader_.received(bytes);
    take_frames();
  }
  if (open()) read();
}

void Connection::take_frames() {
  try {
    while (open() && !finishing_) {
      auto frame = reader_.next();
      if (!frame) return;
      owner_->on_frame(*this, std::move(*frame));
    }
  } catch (const Error& error) {
    end(error.what());
  }
}

void Connection::send(Frame frame) {
  if (!open() || finishing_ || broken_) return;
  if (queued_bytes_ + frame.payload.size() > settings_.most_queued) {
    // Posted, because a sender does not expect the connection to end during its call.
    broken_ = true;
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
      if (self->open() && !self->finishing_) self->end("it takes no messages: too many wait to be sent to it");
    });
    return;
  }
  queued_bytes_ += frame.payload.size();
  frame.version = settings_.version;
  const auto header = header_of(frame);
  queue_.push_back({header, std::move(frame.payload)});
  if (!writing_) write();
}

void Connection::write() {
  writing_ = true;
  const std::size_t frames = std::min(queue_.size(), most_frames_a_write);
  std::vector<asio::const_buffer> buffers;
  buffers.reserve(2 * frames);
  for (std::size_t i = 0; i < frames; ++i) {
    buffers.push_back(asio::buffer(queue_[i].header));
    buffers.push_back(asio::buffer(queue_[i].payload));
  }
  asio::async_write(socket_, buffers, [self = shared_from_this(), frames](const error_code& error, std::size_t) {
    self->was_written(error, frames);
  });
}

void Connection::was_written(const error_code& error, std::size_t frames) {
  writing_ = false;
  if (!open()) return;
  broken_ = broken_ || error;
  for (std::size_t i = 0; i < frames; ++i) {
    queued_bytes_ -= queue_.front().payload.size();
    queue_.pop_front();
  }
  if (broken_) {  // data that the other process sent before is still read
    queue_.clear();
    queued_bytes_ = 0;
  }
  if (!queue_.empty()) return write();
  if (finishing_) said_all();
}

void Connection::said_all() {
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  if (heard_all_) close();
}

void Connection::finish(std::function<void()> done) {
  if (!open()) return done();
  finished_ = std::move(done);
  finishing_ = true;
  if (!writing_) said_all();
  farewell_.expires_after(settings_.farewell);
  farewell_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error) self->close();
  });
}

void Connection::close() {
  if (!open()) return;
  error_code ignored;
  socket_.close(ignored);
  farewell_.cancel();
  if (auto done = std::exchange(finished_, nullptr)) done();
}

void Connection::end(const std::string& why) {
  const bool told = !finishing_;
  close();
  if (told) owner_->on_end(*this, why);
}

bool Connection::has_unread() const {
  error_code error;
  return open() && socket_.available(error) > 0;
}

}  // namespace pipetrain::control
