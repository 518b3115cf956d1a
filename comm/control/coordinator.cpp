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

// Leaves out those that are not here, and counts the others anew.
void leave_out_absent(std::vector<Peer>& peers, std::vector<std::optional<ProcessInfo>>& joined) {
  std::size_t next = 1;
  for (std::size_t process = 1; process < peers.size(); ++process) {
    Peer other = std::exchange(peers[process], Peer{});
    if (!other.ready) {
      if (other.connection) refuse_late(*other.connection);
      continue;
    }
    joined[next] = std::exchange(joined[process], std::nullopt);
    joined[next]->process = other.connection->process = static_cast<int>(next);
    peers[next++] = std::move(other);
  }
  peers.resize(next);
  joined.resize(next);
}

// Returns the processes with the addresses at which the run reaches them.
std::vector<ProcessInfo> processes_of(const std::vector<Peer>& peers, const std::vector<std::optional<ProcessInfo>>& joined) {
  std::vector<ConnectionEnds> ends;
  for (std::size_t process = 1; process < peers.size(); ++process) {
    const Connection& connection = *peers[process].connection;
    ends.push_back({connection.local_address(), connection.remote_address()});
  }
  const auto addresses = addresses_in_run(ends);
  std::vector<ProcessInfo> all;
  for (std::size_t process = 0; process < joined.size(); ++process) {
    all.push_back(*joined[process]);
    all.back().address = addresses[process];
  }
  return all;
}

}  // namespace

void Peer::ping() {
  ping_sent = Clock::now();
  connection->send({.kind = FrameKind::ping});
}

// The other clock was read between sending and receiving: at half the round trip, give or take half of it. So the
// shortest round trip is the most precise (Cristian 1989).
void Peer::take_pong(const Frame& frame, std::chrono::nanoseconds& clock_offset) {
  const auto now = Clock::now();
  WireReader reader(frame.payload);
  const std::chrono::nanoseconds theirs(reader.number<std::int64_t>());
  reader.end();
  const auto round_trip = now - ping_sent;
  if (round_trip < best_round_trip) {
    best_round_trip = round_trip;
    clock_offset = ping_sent.time_since_epoch() + round_trip / 2 - theirs;
  }
  if (++pings < pings_to_compare_clocks) return ping();
  ready = true;
}

Coordinator::Coordinator(asio::io_context& io, const Rendezvous& rendezvous, const Settings& settings, StarEvents& events)
    : io_(io),
      rendezvous_(rendezvous),
      settings_(settings),
      events_(events),
      own_(hello_of(rendezvous)),
      watch_(settings.heartbeat, settings.silence),
      peers_(static_cast<std::size_t>(rendezvous.places())),
      joined_(peers_.size()),
      known_(peers_.size()) {
  own_.info.process = 0;
  joined_[0] = own_.info;
}

void Coordinator::start() {
  deadline_ = Clock::now() + rendezvous_.timeout;
  if (rendezvous_.gathering) gathering_.emplace(*rendezvous_.gathering, Clock::now());
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
    if (gathering_) return refuse(*connection, *refusal);
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
    peers_[process].ping();
  }
}

// Gives the process of a gathering its place.
std::optional<Refusal> Coordinator::refusal_of_admission(Hello& hello) const {
  if (gathering_) {
    if (phase_ != Phase::rendezvous || !gathering_->is_member(hello.info.process)) return too_late();
    hello.info.process = gathering_->place_of(hello.info.process);
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
  if (gathering_) return refuse(*connection, refusal);
  turn_away(*connection, "a process", refusal);
}

// Its place stays empty, so waiting for the others is useless. They get the reason once this process has it.
void Coordinator::turn_away(Connection& connection, const std::string& who, const Refusal& refusal) {
  refuse(connection, refusal, [this, why = who + " was refused: " + to_error(refusal).what()] {
    if (phase_ == Phase::rendezvous) give_rendezvous_up({ErrorKind::input, {}, why});
  });
}

void Coordinator::begin_if_complete() {
  if (is_complete()) begin();
}

bool Coordinator::is_complete() const {
  const auto here = [this](int process) { return is_here(process); };
  if (gathering_) return gathering_->may_begin(here, Clock::now());
  return std::all_of(peers_.begin() + 1, peers_.end(), [](const Peer& other) { return other.ready; });
}

void Coordinator::begin() {
  if (gathering_) {
    gathering_->end_absent([this](int process) { return is_here(process); });
    leave_out_absent(peers_, joined_);
    // Members of this membership that gather again before this process does wait at the standby socket until it does.
    if (reception_) reception_->close();
  }
  phase_ = Phase::running;
  std::vector<ProcessInfo> all = processes_of(peers_, joined_);
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
  if (frame.kind == FrameKind::pong && !peer.ready) {
    peer.take_pong(frame, joined_[static_cast<std::size_t>(peer.connection->process)]->clock_offset);
    if (peer.ready) begin_if_complete();
    return;
  }
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
  if (phase_ == Phase::rendezvous && gathering_) begin_if_complete();
  if (phase_ == Phase::rendezvous && gathering_) gathering_->end_lost(now);
  if (phase_ == Phase::rendezvous && now > deadline_) {
    give_rendezvous_up({ErrorKind::peer_lost,
                        {},
                        missing(joined_, known_) + " of the run's " + std::to_string(peers_.size()) + " did not join at " +
                            address_of(rendezvous_) + " within " + seconds_text(rendezvous_.timeout) +
                            "; check that process, or give it more time"});
  }
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
