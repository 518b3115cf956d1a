#include "actors/engine/remote/engine_channel.hpp"

#include <utility>

#include "actors/engine/remote/codec.hpp"
#include "core/error.hpp"

namespace pipetrain {

Failure loss_of(const ControlPlane& control, int process, const std::string& why) {
  return {.kind = ErrorKind::peer_lost, .text = why, .where = to_string(control.info(process)), .process_lost = true};
}

EngineChannel::EngineChannel(std::shared_ptr<ControlPlane> control) : control_(std::move(control)) {
  control_->on_lost([this](int process, const std::string& why) { lose(process, why); });
  control_->on_message(Channel::engine, [this](int from, std::span<const std::byte> bytes) { received(from, bytes); });
}

EngineChannel::~EngineChannel() {
  control_->on_message(Channel::engine, {});
  control_->on_lost({});
}

void EngineChannel::send(int process, const RemoteMessage& message) {
  control_->send(process, Channel::engine, encode(message));
}

void EngineChannel::lose(int process, const std::string& why) {
  if (!ending_) failed(process, loss_of(*control_, process, why));
}

void EngineChannel::failed(int process, Failure failure) {
  std::function<void(const Failure&)> handler;
  {
    const std::lock_guard lock(mutex_);
    const bool first = !failure_;
    if (first) failure_ = failure;
    if (receiver_) return receiver_->lost(process, failure);
    if (first) handler = on_failure_;
  }
  if (handler) handler(failure);
}

void EngineChannel::received(int from, std::span<const std::byte> bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (receiver_) return receiver_->message(from, bytes);
  }
  // Before all processes have built their parts nothing else arrives, and nothing that matters after this one's
  // pipeline is gone.
  try {
    RemoteMessage message = decode(bytes, {});
    if (auto* build = std::get_if<ProcessFailed>(&message.body)) failed(from, std::move(build->cause));
  } catch (const Error& error) {
    if (!running_) failed(from, loss_of(*control_, from, error.what()));
  }
}

void EngineChannel::on_failure(std::function<void(const Failure&)> handler) {
  std::optional<Failure> failure;
  {
    const std::lock_guard lock(mutex_);
    on_failure_ = handler;
    failure = failure_;
  }
  if (failure && handler) handler(*failure);
}

void EngineChannel::check() const {
  const std::lock_guard lock(mutex_);
  if (!failure_) return;
  Failure named = *failure_;
  if (!named.setting && !named.names_place) {
    named.text = named.where + ": " + named.text;
    named.names_place = true;
  }
  std::rethrow_exception(exception_of(named));
}

std::vector<Bytes> EngineChannel::exchange(const std::string& key, Bytes mine) {
  check();
  try {
    auto all = control_->exchange(key, std::move(mine));
    check();
    return all;
  } catch (...) {  // check() throws the cause, which arrives apart from the loss
    check();
    throw;
  }
}

std::exception_ptr EngineChannel::fail(std::exception_ptr cause) {
  try {
    check();
  } catch (...) {
    cause = std::current_exception();
  }
  // Also sends failures and losses that came from others: nobody else may have noticed them, and nobody learns that
  // this process, which leaves on purpose, is gone. A process that already has a cause keeps it.
  Failure failure = failure_of(cause);
  failure.where = to_string(control_->info(process()));
  for (int other = 0; other < processes(); ++other) {
    if (other != process()) send(other, {{}, ProcessFailed{failure}});
  }
  return cause;
}

void EngineChannel::attach(Receiver receiver) {
  const std::lock_guard lock(mutex_);
  receiver_ = std::move(receiver);
}

void EngineChannel::detach() {
  const std::lock_guard lock(mutex_);
  receiver_.reset();
}

void EngineChannel::begin_run() {
  exchange("the run begins", {});
  running_ = true;
}

void EngineChannel::keep(std::vector<float> values) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(values));
}

void EngineChannel::end_run() noexcept {
  expect_end();
  try {
    control_->exchange("the run ends", {});
  } catch (...) {  // a process that has failed or is gone is not waited for
  }
}

}  // namespace pipetrain
