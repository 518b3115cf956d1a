#include "comm/control/reception.hpp"

#include <algorithm>
#include <utility>

#include "comm/control/admission.hpp"
#include "comm/control/token.hpp"
#include "core/error.hpp"

namespace pipetrain::control {
namespace {

constexpr std::chrono::milliseconds pause_after_failure{100};  // for example when this process has no file descriptor left

}  // namespace

Reception::Reception(tcp::acceptor acceptor, const std::string& token, const Settings& settings, AdmissionController& admission)
    : acceptor_(std::move(acceptor)),
      pause_(acceptor_.get_executor()),
      token_(token),
      settings_(settings),
      admission_(admission) {}

void Reception::accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) { accepted(error, std::move(socket)); });
}

void Reception::accepted(const error_code& error, tcp::socket socket) {
  if (!acceptor_.is_open()) return;
  if (error) {
    pause_.expires_after(pause_after_failure);
    pause_.async_wait([this](const error_code& ended) {
      if (!ended && acceptor_.is_open()) accept();
    });
    return;
  }
  // An honest process shows its token at once, so the oldest connection is the least likely to be one.
  if (strangers_.size() >= settings_.most_strangers) {
    strangers_.front().connection->close();
    strangers_.pop_front();
  }
  const auto connection = std::make_shared<Connection>(std::move(socket), settings_, most_token_bytes);
  strangers_.push_back({connection, Clock::now()});
  connection->start(*this);
  accept();
}

void Reception::on_frame(Connection& connection, Frame&& frame) {
  const auto stranger = std::find_if(strangers_.begin(), strangers_.end(),
                                     [&](const Stranger& one) { return one.connection.get() == &connection; });
  if (!stranger->token_shown) return check_token(*stranger, frame);
  if (frame.kind != FrameKind::hello) return connection.close();
  Hello hello;
  try {
    hello = read_message<Hello>(frame.payload);
  } catch (const Error&) {
    strangers_.erase(stranger);
    return connection.close();
  }
  auto known = std::move(stranger->connection);
  strangers_.erase(stranger);
  known->reader().allow(most_frame_bytes);
  admission_.admit(std::move(known), std::move(hello));
}

void Reception::check_token(Stranger& stranger, const Frame& frame) {
  Connection& connection = *stranger.connection;
  if (frame.kind != FrameKind::token || !same_token(frame.payload, token_)) {
    refuse(connection, wrong_token(frame.payload, token_));
  } else if (frame.version != settings_.version) {
    const auto known = stranger.connection;
    strangers_.remove_if([&](const Stranger& one) { return one.connection == known; });
    admission_.misfit(known, wrong_version(frame.version, settings_.version));
  } else {
    stranger.token_shown = true;
    connection.reader().allow(most_hello_bytes);
    connection.reader().require(settings_.version);
  }
}

void Reception::on_end(Connection& connection, const std::string&) {
  strangers_.remove_if([&](const Stranger& stranger) { return stranger.connection.get() == &connection; });
}

void Reception::tick(Clock::time_point now) {
  strangers_.remove_if([&](const Stranger& stranger) {
    const bool late = now - stranger.since > settings_.handshake;
    if (late) stranger.connection->close();
    return late || !stranger.connection->open();
  });
}

void Reception::close() {
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  for (const Stranger& stranger : strangers_) stranger.connection->close();
  strangers_.clear();
}

void refuse(Connection& connection, const Refusal& refusal, std::function<void()> done) {
  connection.send({.kind = FrameKind::refused, .payload = to_bytes(refusal)});
  connection.finish(std::move(done));
}

}  // namespace pipetrain::control
