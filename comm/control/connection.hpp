// One TCP connection that carries frames.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "comm/control/asio.hpp"
#include "comm/control/frame.hpp"
#include "comm/control/settings.hpp"

namespace pipetrain::control {

class Connection;

// The reader of a connection. Called on the I/O thread.
class ConnectionOwner {
 public:
  virtual void on_frame(Connection& connection, Frame&& frame) = 0;
  // The connection has ended: closed by the other process, broken, or given up for invalid data. No call follows.
  virtual void on_end(Connection& connection, const std::string& why) = 0;

 protected:
  ~ConnectionOwner() = default;
};

// Used on the I/O thread only.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // The settings must outlive it.
  Connection(tcp::socket socket, const Settings& settings, std::size_t most_payload);

  // The owner must outlive the connection's use: until close(), finish() or on_end().
  void start(ConnectionOwner& owner);
  void set_owner(ConnectionOwner& owner) { owner_ = &owner; }
  FrameReader& reader() { return reader_; }

  void send(Frame frame);
  bool idle() const { return queue_.empty(); }  // nothing is queued

  // Sends what is queued, tells the other process that nothing more follows, and waits until it has closed its end, for
  // at most Settings::farewell. Drops its messages meanwhile, and calls the owner no more. Then calls `done`.
  void finish(std::function<void()> done);
  // Ends the connection at once. Calls the owner no more, but calls `done` of finish().
  void close();
  bool open() const { return socket_.is_open(); }

  Clock::time_point heard() const { return heard_; }
  // True when bytes have arrived that were not read yet.
  bool has_unread() const;

  // Return the addresses of this end and of the other one; unspecified once it is broken.
  asio::ip::address local_address() const;
  asio::ip::address remote_address() const;

  int process = -1;  // the process at the other end; set by the owner

 private:
  void read();
  void was_read(const error_code& error, std::size_t bytes);
  void take_frames();
  void write();
  void was_written(const error_code& error, std::size_t frames);
  void said_all();
  void end(const std::string& why);

  tcp::socket socket_;
  asio::steady_timer farewell_;
  const Settings& settings_;
  FrameReader reader_;
  ConnectionOwner* owner_ = nullptr;
  Clock::time_point heard_ = Clock::now();

  struct Outgoing {
    std::array<std::byte, header_bytes> header;
    Bytes payload;
  };
  std::deque<Outgoing> queue_;
  std::size_t queued_bytes_ = 0;
  bool writing_ = false, broken_ = false;       // broken: writing failed; reading will report why
  bool finishing_ = false, heard_all_ = false;  // heard_all_: the other process has closed its end
  std::function<void()> finished_;
};

}  // namespace pipetrain::control
