#include "comm/control/member.hpp"

#include <utility>

#include "comm/control/address.hpp"
#include "comm/control/admission.hpp"
#include "comm/control/reasons.hpp"
#include "comm/process_handles.hpp"
#include "core/error.hpp"

namespace pipetrain::control {

Member::Member(asio::io_context& io, const Rendezvous& rendezvous, const Settings& settings, StarEvents& events)
    : rendezvous_(rendezvous),
      settings_(settings),
      events_(events),
      resolver_(io),
      socket_(io),
      watch_(settings.heartbeat, settings.silence) {}

void Member::start() {
  deadline_ = Clock::now() + rendezvous_.timeout;
  connect();
}

void Member::connect() {
  phase_ = Phase::connecting;
  next_ = Clock::now() + settings_.handshake;
  resolver_.async_resolve(rendezvous_.host, std::to_string(rendezvous_.port),
                          [this, attempt = ++attempt_](const error_code& error, const tcp::resolver::results_type& found) {
                            if (attempt == attempt_ && phase_ == Phase::connecting) resolved(error, found);
                          });
}

void Member::resolved(const error_code& error, const tcp::resolver::results_type& found) {
  if (error) return retry("the host's address is unknown: " + error.message());
  try {
    for (const auto& entry : found) check_token(rendezvous_, entry.endpoint().address());
  } catch (const Error& missing_token) {
    return fail(missing_token);
  }
  asio::async_connect(socket_, found, [this, attempt = attempt_](const error_code& failure, const tcp::endpoint&) {
    if (attempt == attempt_ && phase_ == Phase::connecting) connected(failure);
  });
}

void Member::connected(const error_code& error) {
  if (error) return retry(error.message());
  // Where nobody listens yet, the kernel may choose that very port for this end, and connects the socket to itself.
  error_code ignored;
  if (socket_.local_endpoint(ignored) == socket_.remote_endpoint(ignored)) return retry("Connection refused");
  phase_ = Phase::greeting;
  next_ = Clock::now() + settings_.handshake;
  connection_ =
      std::make_shared<Connection>(std::exchange(socket_, tcp::socket(socket_.get_executor())), settings_, most_hello_bytes);
  connection_->start(*this);
  const auto token = std::as_bytes(std::span(rendezvous_.token));
  connection_->send({.kind = FrameKind::token, .payload = Bytes(token.begin(), token.end())});
  connection_->send({.kind = FrameKind::hello, .payload = to_bytes(hello_of(rendezvous_))});
}

void Member::retry(const std::string& problem) {
  problem_ = problem;
  ++attempt_;
  resolver_.cancel();
  error_code ignored;
  socket_.close(ignored);
  if (auto connection = std::exchange(connection_, nullptr)) connection->close();
  phase_ = Phase::pausing;
  next_ = Clock::now() + settings_.retry;
}

void Member::fail(const Error& error) {
  retry("");  // closes the connection and the timer
  phase_ = Phase::over;
  events_.failed(std::make_exception_ptr(error));
}

void Member::tick(Clock::time_point now) {
  if (phase_ == Phase::over) return;
  watch_.tick(now);
  if (phase_ != Phase::waiting && phase_ != Phase::running) return tick_before_greeting_is_answered(now);
  if (watch_.silent(connection_->heard(), now) && !connection_->has_unread())
    return on_end(*connection_, silent_reason(settings_.silence));
  if (connection_->idle()) connection_->send({.kind = FrameKind::heartbeat});
}

void Member::tick_before_greeting_is_answered(Clock::time_point now) {
  if (rendezvous_.gathering && rendezvous_.gathering->handles->has_ended(rendezvous_.gathering->leader))
    return fail(
        Error(ErrorKind::peer_lost, "the process that would gather the others at " + address_of(rendezvous_) + " has ended"));
  if (now > deadline_)
    return fail(Error(ErrorKind::peer_lost, "process 0 was not reached at " + address_of(rendezvous_) + " within " +
                                                seconds_text(rendezvous_.timeout) + ": " + problem_ +
                                                "; check that it runs there and that this host can reach it"));
  if (now <= next_) return;
  if (phase_ == Phase::pausing) return connect();
  retry("no answer within " + seconds_text(settings_.handshake));
}

void Member::on_frame(Connection& connection, Frame&& frame) {
  if (frame.kind == FrameKind::heartbeat) return;
  switch (phase_) {
    case Phase::greeting:
      return frame_in_greeting(connection, frame);
    case Phase::waiting:
      return frame_in_waiting(connection, frame);
    case Phase::running:
      return frame_in_run(connection, std::move(frame));
    default:
      return;
  }
}

void Member::frame_in_greeting(Connection& connection, const Frame& frame) {
  if (frame.kind == FrameKind::refused) {
    const Error refusal = to_error(read_message<Refusal>(frame.payload));
    // Not this process's fault: the run there is ending, and the intended one may follow.
    if (refusal.kind() == ErrorKind::peer_lost) return retry(refusal.what());
    const bool taken = refusal.kind() == ErrorKind::unavailable;
    return fail(taken ? Error(refusal.kind(), address_of(rendezvous_) + ": " + refusal.what()) : refusal);
  }
  if (frame.version != settings_.version) return fail(to_error(wrong_version(settings_.version, frame.version)));
  if (frame.kind != FrameKind::accepted) throw Error(ErrorKind::peer_lost, "it sent an invalid answer to the greeting");
  connection.reader().allow(most_frame_bytes);
  connection.reader().require(settings_.version);
  phase_ = Phase::waiting;
}

void Member::frame_in_waiting(Connection& connection, const Frame& frame) {
  if (frame.kind == FrameKind::refused) return fail(to_error(read_message<Refusal>(frame.payload)));
  if (frame.kind == FrameKind::ping) {
    WireWriter writer;
    writer.number(static_cast<std::int64_t>(std::chrono::nanoseconds(Clock::now().time_since_epoch()).count()));
    return connection.send({.kind = FrameKind::pong, .payload = std::move(writer).data()});
  }
  if (frame.kind == FrameKind::lost)
    throw Error(ErrorKind::peer_lost, "it counts this process as lost: " + read_message<Loss>(frame.payload).why);
  if (frame.kind != FrameKind::welcome) throw Error(ErrorKind::peer_lost, "it sent a message before the run began");
  auto all = read_message<std::vector<ProcessInfo>>(frame.payload);
  const bool counted_anew = rendezvous_.gathering.has_value();
  if (counted_anew ? std::ssize(all) > rendezvous_.processes : std::ssize(all) != rendezvous_.processes)
    throw Error(ErrorKind::peer_lost, "it sent another number of processes");
  const int own = counted_anew ? frame.to : rendezvous_.process;
  if (own <= 0 || own >= std::ssize(all)) throw Error(ErrorKind::peer_lost, "it gave this process a place that does not exist");
  phase_ = Phase::running;
  events_.joined(std::move(all), own);
}

void Member::frame_in_run(Connection& connection, Frame&& frame) {
  const bool known = frame.from < rendezvous_.processes && frame.from != rendezvous_.process;
  if (frame.kind == FrameKind::exchange && known) return events_.received(std::move(frame));
  if (frame.kind == FrameKind::message && known && frame.to == rendezvous_.process) return events_.received(std::move(frame));
  if (frame.kind == FrameKind::left && known) {
    events_.left(frame.from);
    if (frame.from != 0) return;
    phase_ = Phase::over;
    return connection.finish([] {});
  }
  if (frame.kind != FrameKind::lost) throw Error(ErrorKind::peer_lost, "it sent a message that it must not send");
  const Loss loss = read_message<Loss>(frame.payload);
  if (loss.process <= 0 || loss.process >= rendezvous_.processes)
    throw Error(ErrorKind::peer_lost, "it lost a process that does not exist");
  if (loss.process == rendezvous_.process) {
    events_.left_out();
    return first_lost("it counts this process as lost: " + loss.why);
  }
  events_.lost(loss.process, loss.why);
}

void Member::on_end(Connection& connection, const std::string& why) {
  connection.close();
  if (phase_ == Phase::greeting) return retry("process 0 did not answer: " + why);
  if (phase_ == Phase::running) return first_lost(why);
  if (phase_ == Phase::waiting)
    fail(Error(ErrorKind::peer_lost, "process 0 at " + address_of(rendezvous_) + " is gone before the run began: " + why));
}

void Member::first_lost(const std::string& why) {
  phase_ = Phase::over;
  connection_->close();
  events_.lost(0, why);
}

void Member::send(Frame frame) {
  if (phase_ == Phase::running) connection_->send(std::move(frame));
}

void Member::give_up(int process, const std::string& why) {
  if (phase_ != Phase::running) return;
  if (process == 0) return first_lost(why);
  events_.lost(process, why);
}

void Member::leave(std::function<void()> done) {
  const bool connected = phase_ == Phase::running;
  phase_ = Phase::over;
  if (!connected) return connection_ ? connection_->finish(std::move(done)) : done();
  connection_->send({.kind = FrameKind::left, .from = static_cast<std::uint16_t>(rendezvous_.process)});
  connection_->finish(std::move(done));
}

}  // namespace pipetrain::control
