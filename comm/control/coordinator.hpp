// Process 0's end of the star.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/control/reception.hpp"
#include "comm/control/silence_watch.hpp"
#include "comm/control/star.hpp"
#include "comm/led_gathering.hpp"

namespace pipetrain::control {

// Another process, as process 0 sees it.
struct Peer {
  std::shared_ptr<Connection> connection;  // null before it joined and after it is gone
  bool ready = false;                      // its clock has been compared
  int pings = 0;
  Clock::time_point ping_sent{};
  Clock::duration best_round_trip = Clock::duration::max();
  std::string gone{};  // the reason, once the run has begun

  void ping();
  // Takes the answer to a ping, and sends the next one until the clocks have been compared.
  void take_pong(const Frame& frame, std::chrono::nanoseconds& clock_offset);
};

class Coordinator final : public StarEnd, private AdmissionController, private ConnectionOwner {
 public:
  // The references must outlive it.
  Coordinator(asio::io_context& io, const Rendezvous& rendezvous, const Settings& settings, StarEvents& events);

  void start() override;
  void tick(Clock::time_point now) override;
  void send(Frame frame) override;
  void give_up(int process, const std::string& why) override;
  void leave(std::function<void()> done) override;

 private:
  enum class Phase { rendezvous, running, over };

  void admit(std::shared_ptr<Connection> connection, Hello hello) override;
  void misfit(std::shared_ptr<Connection> connection, const Refusal& refusal) override;
  void on_frame(Connection& connection, Frame&& frame) override;
  void on_end(Connection& connection, const std::string& why) override;

  void frame_before_run(Peer& peer, const Frame& frame);
  void begin_if_complete();
  bool is_complete() const;
  bool is_here(int process) const { return process == 0 || peers_[static_cast<std::size_t>(process)].ready; }
  void begin();
  std::optional<Refusal> refusal_of_admission(Hello& hello) const;
  void forward(Frame&& frame);
  void left(int process);
  void lose(int process, const std::string& why);
  void send_to_others(int process, const Frame& frame);
  // Refuses a process; before the run begins that ends the rendezvous for all.
  void turn_away(Connection& connection, const std::string& who, const Refusal& refusal);
  void give_rendezvous_up(const Refusal& why);
  // Ends all connections with this frame, then calls `done`.
  void part(const Frame& last, std::function<void()> done);
  Peer& peer(int process) { return peers_[static_cast<std::size_t>(process)]; }

  asio::io_context& io_;
  const Rendezvous& rendezvous_;
  const Settings& settings_;
  StarEvents& events_;
  Hello own_;
  std::optional<Reception> reception_;
  SilenceWatch watch_;
  Clock::time_point deadline_;
  std::optional<LedGathering> gathering_;  // its processes are counted anew when it begins
  Phase phase_ = Phase::rendezvous;
  std::vector<Peer> peers_;                         // by process; entry 0 is unused
  std::vector<std::optional<ProcessInfo>> joined_;  // by process
  std::vector<std::string> known_;                  // by process: what is known of those that have not joined
};

}  // namespace pipetrain::control
