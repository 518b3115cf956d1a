// The ControlPlane over a star of connections.
#pragma once

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "comm/control/exchange_board.hpp"
#include "comm/control/handshake.hpp"
#include "comm/control/mailbox.hpp"
#include "comm/control/settings.hpp"
#include "comm/control/star.hpp"

namespace pipetrain::control {

class StarControlPlane final : public ControlPlane, private StarEvents {
 public:
  // Starts the I/O thread. Throws Error(input) for settings that no process of a run can have.
  StarControlPlane(const Rendezvous& rendezvous, const Settings& settings);
  // Without leave(), this process is lost to the others.
  ~StarControlPlane() override;

  // Blocks until the run begins; throws the failure that prevents it. Call it once.
  void join();

  int process() const override { return rendezvous_.process; }
  int processes() const override { return rendezvous_.processes; }
  const ProcessInfo& info(int process) const override { return all_.at(static_cast<std::size_t>(process)); }
  bool is_gone(int process) const override { return end_of(process) != ProcessEnd::none; }
  bool is_lost(int process) const override { return end_of(process) == ProcessEnd::lost; }
  void on_message(Channel channel, OnMessage handler) override;
  void on_lost(OnLost handler) override;
  void send(int process, Channel channel, Bytes message) override;
  std::vector<Bytes> exchange(const std::string& key, Bytes mine) override;
  void leave() override;

 private:
  struct Message {
    int from = 0;
    Bytes bytes;
  };
  struct Inbox {
    Mailbox<Message> messages;
    std::size_t kept_bytes = 0;
  };

  enum class ProcessEnd : std::uint8_t { none, left, lost };
  ProcessEnd end_of(int process) const { return ends_.at(static_cast<std::size_t>(process)); }

  void joined(std::vector<ProcessInfo> all, int own) override;
  void failed(std::exception_ptr why) override;
  void received(Frame&& frame) override;
  void lost(int process, const std::string& why) override;
  void left(int process) override;
  void left_out() override { ends_[static_cast<std::size_t>(process())] = ProcessEnd::lost; }

  void run();
  void schedule_tick();
  bool on_io_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
  // Runs the work on the I/O thread and waits for it; on that thread, runs it at once.
  void run_there(const std::function<void()>& work);
  void put(Channel channel, Message message);
  // Calls a handler; when it throws, the sender of the message is lost.
  void hand_over(const OnMessage& handler, Inbox& inbox, const Message& message);
  void distrust(int process, const std::string& why);

  Rendezvous rendezvous_;
  Settings settings_;
  asio::io_context io_;  // outlives everything that uses it
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer ticks_;
  std::unique_ptr<StarEnd> end_;
  std::promise<void> begun_;
  std::vector<ProcessInfo> all_;        // valid once begun_ has its value
  std::optional<ExchangeBoard> board_;  // once the run has begun
  std::array<Inbox, 3> inboxes_;        // by channel
  Mailbox<Loss> losses_;
  std::vector<std::atomic<ProcessEnd>> ends_;  // by process, once the run has begun; set on the I/O thread
  bool leaving_ = false;                       // on the I/O thread
  std::atomic<bool> left_{false};
  std::thread thread_;
};

}  // namespace pipetrain::control
