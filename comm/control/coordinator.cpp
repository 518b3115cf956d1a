#include "comm/control/coordinator.hpp"

#include <algorithm>
#include <utility>

#include "comm/control/address.hpp"
#include "comm/control/admission.hpp"
#include "comm/control/reasons.hpp"
#include "core/error.hpp"

namespace pipetrain::control {
namespace {

constexpr int pings_to_compare_clocks = 16;

Refusal too_late() { return {ErrorKind::input, {}, "the others went on without this process, which came too late"}; }

// The connection belongs to no place any more.
void refuse_late(Connection& connection) {
  connection.process = 0;
  refuse(connection, too_late());
}

}  // namespace

Coordinator::Coordinator(asio::io_context& io, const Rendezvous& rendezvous, const Settings& settings, StarEvents& events)
    : io_(io),
      rendezvous_(rendezvous),
      settings_(settings),
      events_(events),
      own_(hello_of(rendezvous)),
      watch_(settings.heartbeat, settings.silence),
      peers_(static_cast<std::size_t>(rendezvous.processes)),
      joined_(peers_.size()),
      known_(peers_.size()) {
  own_.info.process = 0;
  joined_[0] = own_.info;
}

int Coordinator::place_of(int process) const {
  if (!rendezvous_.gathering || process > rendezvous_.gathering->leader) return process;
  return process == rendezvous_.gathering->leader ? 0 : process + 1;
}

void Coordinator::start() {
  deadline_ = Clock::now() + rendezvous_.timeout;
  if (rendezvous_.gathering) {
    patience_over_ = Clock::now() + rendezvous_.gathering->patience;
    lost_over_ = Clock::now() + rendezvous_.gathering->patience_lost;
  }
  if (peers_.size() > 1) {  // else nobody joins
    reception_.emplace(listen(io_, rendezvous_), rendezvous_.token, settings_, static_cast<AdmissionController&>(*this));
    reception_->start();
  }
  begin_if_complete();
}

void Coordinator::admit(std::shared_ptr<Connection> connection, Hello hello) {
  if (const auto other = refusal_of_job(hello, own_)) return refuse(*connection, *other);
  if (const auto refusal = refusal_of_admission(hello)) {
    // A stranger to a gathering is of no use to it, and those who belong to it may still come.
    if (rendezvous_.gathering) return refuse(*connection, *refusal);
    return turn_away(*connection, to_string(hello.info), *refusal);
  }
  const int process = hello.info.process;
  connection->process = process;
  connection->set_owner(*this);
  connection->send({.kind = FrameKind::accepted});
  hello.info.clock_offset = std::chrono::nanoseconds(0);
  joined_[process] = std::move(hello.info);
  peers_[process] = Peer{.connection = std::move(connection)};
  if (joined_[process]->machine == own_.info.machine) {  // they share a clock
    peers_[process].ready = true;
    begin_if_complete();
  } else {
    ping(peers_[process]);
  }
}

// Gives the process of a gathering its place.
std::optional<Refusal> Coordinator::refusal_of_admission(Hello& hello) const {
  if (rendezvous_.gathering) {
    const auto& members = rendezvous_.gathering->members;
    const bool is_member = std::find(members.begin(), members.end(), hello.info.process) != members.end();
    if (phase_ != Phase::rendezvous || !is_member) return too_late();
    hello.info.process = place_of(hello.info.process);
  }
  auto refusal = refusal_of(hello, own_, joined_);
  const auto place = static_cast<std::size_t>(hello.info.process);
  if (hello.info.process > 0 && place < peers_.size() && !peers_[place].gone.empty())
    refusal =
        Refusal{ErrorKind::peer_lost,
                {},
                "the run there has begun without it: " + to_string(*joined_[place]) + " is gone (" + peers_[place].gone + ")"};
  return refusal;
}

void Coordinator::misfit(std::shared_ptr<Connection> connection, const Refusal& refusal) {
  if (rendezvous_.gathering) return refuse(*connection, refusal);
  turn_away(*connection, "a process", refusal);
}

// Its place stays empty, so waiting for the others is useless. They get the reason once this process has it.
void Coordinator::turn_away(Connection& connection, const std::string& who, const Refusal& refusal) {
  refuse(connection, refusal, [this, why = who + " was refused: " + to_error(refusal).what()] {
    if (phase_ == Phase::rendezvous) give_rendezvous_up({ErrorKind::input, {}, why});
  });
}

void Coordinator::ping(Peer& peer) {
  peer.ping_sent = Clock::now();
  peer.connection->send({.kind = FrameKind::ping});
}

// The other clock was read between sending and receiving: at half the round trip, give or take half of it. So the
// shortest round trip is the most precise (Cristian 1989).
void Coordinator::take_pong(Peer& peer, const Frame& frame) {
  const auto now = Clock::now();
  WireReader reader(frame.payload);
  const std::chrono::nanoseconds theirs(reader.number<std::int64_t>());
  reader.end();
  const auto round_trip = now - peer.ping_sent;
  if (round_trip < peer.best_round_trip) {
    peer.best_round_trip = round_trip;
    joined_[peer.connection->process]->clock_offset = peer.ping_sent.time_since_epoch() + round_trip / 2 - theirs;
  }
  if (++peer.pings < pings_to_compare_clocks) return ping(peer);
  peer.ready = true;
  begin_if_complete();
}

void Coordinator::begin_if_complete() {
  if (is_complete()) begin();
}

bool Coordinator::is_complete() const {
  if (rendezvous_.gathering) return may_begin(*rendezvous_.gathering, gathered(), Clock::now() > patience_over_);
  return std::all_of(peers_.begin() + 1, peers_.end(), [](const Peer& other) { return other.ready; });
}

std::vector<int> Coordinator::gathered() const {
  std::vector<int> here;
  for (const int process : rendezvous_.gathering->members) {
    const int place = place_of(process);
    if (place == 0 || peers_[static_cast<std::size_t>(place)].ready) here.push_back(process);
  }
  return here;
}

// Those on this machine end: a stopped process would otherwise keep its memory, its locks and its processors' time.
void Coordinator::leave_out_absent() {
  const std::vector<int> here = gathered();
  for (const int process : rendezvous_.gathering->members)
    if (std::find(here.begin(), here.end(), process) == here.end()) rendezvous_.gathering->handles->end(process);
  std::size_t next = 1;
  for (std::size_t process = 1; process < peers_.size(); ++process) {
    Peer other = std::exchange(peers_[process], Peer{});
    if (!other.ready) {
      if (other.connection) refuse_late(*other.connection);
      continue;
    }
    joined_[next] = std::exchange(joined_[process], std::nullopt);
    joined_[next]->process = other.connection->process = static_cast<int>(next);
    peers_[next++] = std::move(other);
  }
  peers_.resize(next);
  joined_.resize(next);
  known_.resize(next);
}

void Coordinator::begin() {
  if (rendezvous_.gathering) leave_out_absent();
  phase_ = Phase::running;
  std::vector<ProcessInfo> all;
  for (const auto& info : joined_) all.push_back(*info);
  std::vector<ConnectionEnds> ends;
  for (std::size_t process = 1; process < peers_.size(); ++process) {
    const Connection& connection = *peers_[process].connection;
    ends.push_back({connection.local_address(), connection.remote_address()});
  }
  const auto addresses = addresses_in_run(ends);
  for (std::size_t process = 0; process < all.size(); ++process) all[process].address = addresses[process];
  for (int process = 1; process < std::ssize(peers_); ++process)
    peer(process).connection->send(
        {.kind = FrameKind::welcome, .to = static_cast<std::uint16_t>(process), .payload = to_bytes(all)});
  events_.joined(std::move(all), 0);
}

void Coordinator::on_frame(Connection& connection, Frame&& frame) {
  const int process = connection.process;
  Peer& from = peer(process);
  if (frame.kind == FrameKind::heartbeat) return;
  if (phase_ == Phase::rendezvous) return frame_before_run(from, frame);
  if (frame.kind == FrameKind::left) return left(process);
  const bool data = frame.kind == FrameKind::message || frame.kind == FrameKind::exchange;
  if (!data || frame.from != process || frame.to >= peers_.size())
    return lose(process, "it sent a message that it must not send");
  forward(std::move(frame));
}

void Coordinator::frame_before_run(Peer& peer, const Frame& frame) {
  if (frame.kind == FrameKind::pong && !peer.ready) return take_pong(peer, frame);
  lose(peer.connection->process, "it sent a message that it must not send before the run begins");
}

void Coordinator::forward(Frame&& frame) {
  if (frame.kind == FrameKind::exchange) {
    send_to_others(frame.from, frame);
    events_.received(std::move(frame));
  } else if (frame.to == 0) {
    events_.received(std::move(frame));
  } else {
    send(std::move(frame));
  }
}

void Coordinator::send(Frame frame) {
  if (frame.kind == FrameKind::exchange) return send_to_others(frame.from, frame);
  if (auto& connection = peer(frame.to).connection) connection->send(std::move(frame));
}

void Coordinator::send_to_others(int process, const Frame& frame) {
  for (int other = 1; other < std::ssize(peers_); ++other) {
    if (other != process && peer(other).connection) peer(other).connection->send(frame);
  }
}

void Coordinator::on_end(Connection& connection, const std::string& why) { lose(connection.process, why); }

void Coordinator::give_up(int process, const std::string& why) { lose(process, why); }

void Coordinator::lose(int process, const std::string& why) {
  const auto connection = std::exchange(peer(process).connection, nullptr);
  if (!connection || phase_ == Phase::over) return;
  const Frame news{.kind = FrameKind::lost, .payload = to_bytes(Loss{process, why})};
  connection->send(news);
  connection->finish([] {});
  if (phase_ == Phase::rendezvous) {  // its place is free again
    peer(process) = Peer{};
    joined_[static_cast<std::size_t>(process)].reset();
    known_[static_cast<std::size_t>(process)] = "it joined and was lost: " + why;
    return;
  }
  peer(process).gone = why;
  send_to_others(process, news);
  events_.lost(process, why);
}

void Coordinator::left(int process) {
  const auto connection = std::exchange(peer(process).connection, nullptr);
  peer(process).gone = "it ended";
  connection->finish([] {});
  send_to_others(process, {.kind = FrameKind::left, .from = static_cast<std::uint16_t>(process)});
  events_.left(process);
}

void Coordinator::tick(Clock::time_point now) {
  if (phase_ == Phase::over) return;
  if (reception_) reception_->tick(now);
  watch_.tick(now);
  for (int process = 1; process < std::ssize(peers_); ++process) {
    const auto connection = peer(process).connection;
    if (!connection) continue;
    if (watch_.silent(connection->heard(), now) && !connection->has_unread()) {
      lose(process, silent_reason(settings_.silence));
    } else if (connection->idle()) {
      connection->send({.kind = FrameKind::heartbeat});
    }
  }
  if (phase_ == Phase::rendezvous && rendezvous_.gathering) tick_gathering(now);
  if (phase_ == Phase::rendezvous && now > deadline_) {
    give_rendezvous_up({ErrorKind::peer_lost,
                        {},
                        missing(joined_, known_) + " of the run's " + std::to_string(peers_.size()) + " did not join at " +
                            address_of(rendezvous_) + " within " + seconds_text(rendezvous_.timeout) +
                            "; check that process, or give it more time"});
  }
}

void Coordinator::tick_gathering(Clock::time_point now) {
  begin_if_complete();
  if (phase_ == Phase::rendezvous && now > lost_over_)
    for (const int process : rendezvous_.gathering->lost) rendezvous_.gathering->handles->end(process);
}

void Coordinator::give_rendezvous_up(const Refusal& why) {
  part({.kind = FrameKind::refused, .payload = to_bytes(why)},
       [this, why] { events_.failed(std::make_exception_ptr(to_error(why))); });
}

void Coordinator::leave(std::function<void()> done) { part({.kind = FrameKind::left, .from = 0}, std::move(done)); }

void Coordinator::part(const Frame& last, std::function<void()> done) {
  phase_ = Phase::over;
  if (reception_) reception_->close();
  const auto open = std::make_shared<int>(1);  // farewells in progress, and this loop
  const auto parted = [open, done = std::move(done)] {
    if (--*open == 0) done();
  };
  for (Peer& other : peers_) {
    const auto connection = std::exchange(other.connection, nullptr);
    if (!connection) continue;
    ++*open;
    connection->send(last);
    connection->finish(parted);
  }
  parted();
}

}  // namespace pipetrain::control
