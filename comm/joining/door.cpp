#include "comm/joining/door.hpp"

#include <algorithm>

#include "comm/control/admission.hpp"
#include "comm/control/reception.hpp"
#include "comm/control/standby_socket.hpp"
#include "core/error.hpp"

namespace pipetrain::control {

// The newcomers that process 0 has let in, and their connections.
class Door::Hall final : private AdmissionController, private ConnectionOwner {
 public:
  Hall(const std::string& address, const Rendezvous& rendezvous, const Settings& settings);
  std::uint16_t port() const { return port_; }
  void look(const Bytes& invitation, const JobContents& contents);
  std::vector<ProcessInfo> ready() const;
  int call(int first, const Call& call);
  void send_away();

 private:
  struct Newcomer {
    std::shared_ptr<Connection> connection;
    ProcessInfo info;
    bool ready = false;
  };

  void admit(std::shared_ptr<Connection> connection, Hello hello) override;
  void misfit(std::shared_ptr<Connection> connection, const Refusal& refusal) override;
  void on_frame(Connection& connection, Frame&& frame) override;
  void on_end(Connection& connection, const std::string& why) override;

  const Settings& settings_;
  const std::string token_;
  Hello own_;
  asio::io_context io_;
  std::uint16_t port_ = 0;
  std::vector<Newcomer> newcomers_;
  Bytes invitation_;
  JobContents contents_;
  std::unique_ptr<Reception> reception_;
};

Door::Hall::Hall(const std::string& address, const Rendezvous& rendezvous, const Settings& settings)
    : settings_(settings), token_(rendezvous.token), own_(hello_of(rendezvous)), io_(1) {
  const StandbySocket socket(address);
  port_ = socket.port();
  tcp::acceptor acceptor(io_, socket.is_v6() ? tcp::v6() : tcp::v4(), socket.duplicate());
  reception_ = std::make_unique<Reception>(std::move(acceptor), token_, settings_, static_cast<AdmissionController&>(*this));
  reception_->start();
}

void Door::Hall::look(const Bytes& invitation, const JobContents& contents) {
  invitation_ = invitation;
  contents_ = contents;
  io_.restart();
  io_.poll();
  reception_->tick(Clock::now());
}

std::vector<ProcessInfo> Door::Hall::ready() const {
  std::vector<ProcessInfo> all;
  for (const Newcomer& newcomer : newcomers_)
    if (newcomer.ready) all.push_back(newcomer.info);
  return all;
}

int Door::Hall::call(int first, const Call& call) {
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

void Door::Hall::send_away() {
  for (const Newcomer& newcomer : newcomers_) newcomer.connection->close();
  newcomers_.clear();
}

void Door::Hall::admit(std::shared_ptr<Connection> connection, Hello hello) {
  if (const auto refusal = refusal_of_newcomer(hello, own_)) return refuse(*connection, *refusal);
  connection->set_owner(*this);
  connection->send({.kind = FrameKind::accepted, .payload = invitation_});
  newcomers_.push_back({std::move(connection), std::move(hello.info)});
}

void Door::Hall::misfit(std::shared_ptr<Connection> connection, const Refusal& refusal) { refuse(*connection, refusal); }

void Door::Hall::on_frame(Connection& connection, Frame&& frame) {
  const auto newcomer = std::find_if(newcomers_.begin(), newcomers_.end(),
                                     [&](const Newcomer& one) { return one.connection.get() == &connection; });
  if (newcomer == newcomers_.end()) return;
  if (frame.kind != FrameKind::ready || newcomer->ready)
    throw Error(ErrorKind::peer_lost, "it sent a message that no newcomer may send");
  const auto refusal = refusal_of_values(read_message<JobContents>(frame.payload), contents_);
  newcomer->ready = !refusal;
  if (!refusal) return;
  const auto kept = newcomer->connection;
  newcomers_.erase(newcomer);
  refuse(*kept, *refusal);
}

void Door::Hall::on_end(Connection& connection, const std::string&) {
  std::erase_if(newcomers_, [&](const Newcomer& one) { return one.connection.get() == &connection; });
}

Door::Door(const std::string& address, const Rendezvous& rendezvous, const Settings& settings)
    : hall_(std::make_unique<Hall>(address, rendezvous, settings)) {}
Door::~Door() { send_away(); }

std::uint16_t Door::port() const { return hall_->port(); }
void Door::look(const Bytes& invitation, const JobContents& contents) { hall_->look(invitation, contents); }
std::vector<ProcessInfo> Door::ready() const { return hall_->ready(); }
int Door::call(int first, const Call& call) { return hall_->call(first, call); }
void Door::send_away() { hall_->send_away(); }

}  // namespace pipetrain::control
