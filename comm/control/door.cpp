#include "comm/control/door.hpp"

#include <algorithm>

#include "comm/control/admission.hpp"

namespace pipetrain::control {

Door::Door(const std::string& address, const Rendezvous& rendezvous, const Settings& settings)
    : settings_(settings), token_(rendezvous.token), own_(hello_of(rendezvous)), io_(1) {
  const StandbySocket socket(address);
  port_ = socket.port();
  tcp::acceptor acceptor(io_, socket.is_v6() ? tcp::v6() : tcp::v4(), socket.duplicate());
  reception_ = std::make_unique<Reception>(std::move(acceptor), token_, settings_, static_cast<AdmissionController&>(*this));
  reception_->start();
}

Door::~Door() { send_away(); }

void Door::look(const Bytes& invitation, const JobContents& contents) {
  invitation_ = invitation;
  contents_ = contents;
  io_.restart();
  io_.poll();
  reception_->tick(Clock::now());
}

std::vector<ProcessInfo> Door::ready() const {
  std::vector<ProcessInfo> all;
  for (const Newcomer& newcomer : newcomers_)
    if (newcomer.ready) all.push_back(newcomer.info);
  return all;
}

int Door::call(int first, const Call& call) {
  Call next = call;
  next.number = first;
  for (const Newcomer& newcomer : newcomers_) {
    if (!newcomer.ready) continue;
    newcomer.connection->send({.kind = FrameKind::called, .payload = to_bytes(next)});
    newcomer.connection->finish([] {});
    ++next.number;
  }
  std::erase_if(newcomers_, [](const Newcomer& newcomer) { return newcomer.ready; });
  io_.restart();
  io_.poll();
  return next.number - first;
}

void Door::send_away() {
  for (const Newcomer& newcomer : newcomers_) newcomer.connection->close();
  newcomers_.clear();
}

void Door::admit(std::shared_ptr<Connection> connection, Hello hello) {
  if (const auto refusal = refusal_of_newcomer(hello, own_)) return refuse(*connection, *refusal);
  connection->set_owner(*this);
  connection->send({.kind = FrameKind::accepted, .payload = invitation_});
  newcomers_.push_back({std::move(connection), std::move(hello.info)});
}

void Door::misfit(std::shared_ptr<Connection> connection, const Refusal& refusal) { refuse(*connection, refusal); }

void Door::on_frame(Connection& connection, Frame&& frame) {
  const auto newcomer = std::find_if(newcomers_.begin(), newcomers_.end(),
                                     [&](const Newcomer& one) { return one.connection.get() == &connection; });
  if (newcomer == newcomers_.end()) return;
  if (frame.kind != FrameKind::ready || newcomer->ready)
    throw Error(ErrorKind::peer_lost, "it sent a message that no newcomer may send");
  const auto refusal = refusal_of_values(read_contents(frame.payload), contents_);
  newcomer->ready = !refusal;
  if (!refusal) return;
  const auto kept = newcomer->connection;
  newcomers_.erase(newcomer);
  refuse(*kept, *refusal);
}

void Door::on_end(Connection& connection, const std::string&) {
  std::erase_if(newcomers_, [&](const Newcomer& one) { return one.connection.get() == &connection; });
}

}  // namespace pipetrain::control
