#include "comm/control/star_control_plane.hpp"

#include <pthread.h>

#include <cassert>
#include <exception>
#include <utility>

#include "comm/control/address.hpp"
#include "comm/control/coordinator.hpp"
#include "comm/control/member.hpp"
#include "core/error.hpp"
#include "core/threads/signals_blocked.hpp"

namespace pipetrain::control {
namespace {

const Rendezvous& checked(const Rendezvous& rendezvous) {
  check_rendezvous(rendezvous);
  return rendezvous;
}

}  // namespace

StarControlPlane::StarControlPlane(const Rendezvous& rendezvous, const Settings& settings)
    : rendezvous_(checked(rendezvous)),
      settings_(settings),
      io_(1),
      work_(io_.get_executor()),
      ticks_(io_),
      ends_(static_cast<std::size_t>(rendezvous.processes)) {
  if (rendezvous_.leads()) {
    end_ = std::make_unique<Coordinator>(io_, rendezvous_, settings_, static_cast<StarEvents&>(*this));
  } else {
    end_ = std::make_unique<Member>(io_, rendezvous_, settings_, static_cast<StarEvents&>(*this));
  }
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { io_.run(); });
  ::pthread_setname_np(thread_.native_handle(), "control");
}

StarControlPlane::~StarControlPlane() {
  assert(!on_io_thread());
  io_.stop();
  thread_.join();
}

void StarControlPlane::join() {
  asio::post(io_, [this] {
    try {
      end_->start();
    } catch (const Error&) {
      return failed(std::current_exception());
    }
    schedule_tick();
  });
  begun_.get_future().get();
}

void StarControlPlane::schedule_tick() {
  ticks_.expires_after(settings_.heartbeat);
  ticks_.async_wait([this](const error_code& error) {
    if (error) return;
    end_->tick(Clock::now());
    schedule_tick();
  });
}

void StarControlPlane::joined(std::vector<ProcessInfo> all, int own) {
  all_ = std::move(all);
  rendezvous_.process = own;
  rendezvous_.processes = static_cast<int>(all_.size());
  board_.emplace(processes(), settings_.patience);
  ends_ = std::vector<std::atomic<ProcessEnd>>(all_.size());
  begun_.set_value();
}

void StarControlPlane::failed(std::exception_ptr why) { begun_.set_exception(std::move(why)); }

void StarControlPlane::run_there(const std::function<void()>& work) {
  if (on_io_thread()) return work();
  std::promise<void> done;
  asio::post(io_, [&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

void StarControlPlane::on_message(Channel channel, OnMessage handler) {
  Inbox& inbox = inboxes_[static_cast<std::size_t>(channel)];
  run_there([&] {
    Mailbox<Message>::Handler handed;
    if (handler) handed = [this, &inbox, handler](Message& message) { hand_over(handler, inbox, message); };
    inbox.messages.set_handler(std::move(handed));
    asio::post(io_, [&inbox] { inbox.messages.drain(); });
  });
}

void StarControlPlane::on_lost(OnLost handler) {
  run_there([&] {
    Mailbox<Loss>::Handler handed;
    if (handler) handed = [handler](Loss& loss) { handler(loss.process, loss.why); };
    losses_.set_handler(std::move(handed));
    asio::post(io_, [this] { losses_.drain(); });
  });
}

void StarControlPlane::send(int process, Channel channel, Bytes message) {
  if (process < 0 || process >= processes())
    throw Error(ErrorKind::internal, "a message to process " + std::to_string(process) + ", which does not exist");
  if (message.size() > max_message_bytes)
    throw Error(ErrorKind::internal,
                "a message of " + std::to_string(message.size()) + " bytes is too long for the control plane");
  asio::post(io_, [this, process, channel, message = std::move(message)]() mutable {
    if (leaving_) return;
    if (process == this->process()) return put(channel, {process, std::move(message)});
    end_->send({.kind = FrameKind::message,
                .channel = channel,
                .from = static_cast<std::uint16_t>(this->process()),
                .to = static_cast<std::uint16_t>(process),
                .payload = std::move(message)});
  });
}

std::vector<Bytes> StarControlPlane::exchange(const std::string& key, Bytes mine) {
  assert(!on_io_thread());
  if (key.size() > 1024 || mine.size() > max_message_bytes)
    throw Error(ErrorKind::internal, "the value exchanged at '" + key.substr(0, 100) + "' is too long for the control plane");
  const std::uint32_t number = board_->begin();
  ExchangePart part{number, key, std::move(mine)};
  Frame frame{.kind = FrameKind::exchange, .from = static_cast<std::uint16_t>(process()), .payload = to_bytes(part)};
  board_->put(process(), std::move(part));
  asio::post(io_, [this, frame = std::move(frame)]() mutable { end_->send(std::move(frame)); });
  return board_->wait(number, key, all_);
}

void StarControlPlane::leave() {
  if (left_.exchange(true)) return;
  const auto parted = std::make_shared<std::promise<void>>();
  asio::post(io_, [this, parted] {
    leaving_ = true;
    end_->leave([parted] { parted->set_value(); });
  });
  if (!on_io_thread()) parted->get_future().wait();
}

void StarControlPlane::received(Frame&& frame) {
  if (is_gone(frame.from) || leaving_) return;
  try {
    if (frame.kind == FrameKind::message) return put(frame.channel, {frame.from, std::move(frame.payload)});
    board_->put(frame.from, read_message<ExchangePart>(frame.payload));
  } catch (const Error& error) {
    distrust(frame.from, error.what());
  }
}

void StarControlPlane::put(Channel channel, Message message) {
  Inbox& inbox = inboxes_[static_cast<std::size_t>(channel)];
  if (inbox.kept_bytes + message.bytes.size() > settings_.most_kept)
    return distrust(message.from, "it sent more messages than a handler may leave waiting");
  inbox.kept_bytes += message.bytes.size();
  inbox.messages.put(std::move(message));
  inbox.messages.drain();
}

void StarControlPlane::hand_over(const OnMessage& handler, Inbox& inbox, const Message& message) {
  inbox.kept_bytes -= message.bytes.size();
  try {
    handler(message.from, message.bytes);
  } catch (const std::exception& error) {
    distrust(message.from, std::string("its message could not be handled: ") + error.what());
  }
}

// Posted, because it may be reading from the very connection that is about to end.
void StarControlPlane::distrust(int process, const std::string& why) {
  asio::post(io_, [this, process, why] {
    if (process != this->process() && !leaving_) end_->give_up(process, why);
    lost(process, why);
  });
}

void StarControlPlane::lost(int process, const std::string& why) {
  if (leaving_ || is_gone(process)) return;
  ends_[static_cast<std::size_t>(process)] = ProcessEnd::lost;
  board_->gone(process, true, why);
  losses_.put({process, why});
  losses_.drain();
}

void StarControlPlane::left(int process) {
  ends_[static_cast<std::size_t>(process)] = ProcessEnd::left;
  board_->gone(process, false, "it ended");
}

std::unique_ptr<ControlPlane> join_processes(const Rendezvous& rendezvous, const Settings& settings) {
  std::unique_ptr<StarControlPlane> plane;
  try {
    plane = std::make_unique<StarControlPlane>(rendezvous, settings);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // no thread or file descriptor is left for it
    throw Error(ErrorKind::unavailable, std::string("this machine allows no connections between processes: ") + error.what());
  }
  plane->join();
  return plane;
}

}  // namespace pipetrain::control

namespace pipetrain {

std::string to_string(const ProcessInfo& process) {
  std::string text = "process " + std::to_string(process.process);
  if (!process.label.empty()) text += " (" + process.label + ")";
  if (!process.host.empty()) text += " on host " + process.host;
  return text;
}

std::unique_ptr<ControlPlane> join_processes(const Rendezvous& rendezvous) { return control::join_processes(rendezvous, {}); }

}  // namespace pipetrain
