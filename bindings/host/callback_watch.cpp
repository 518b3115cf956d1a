#include "bindings/host/callback_watch.hpp"

#include "bindings/host/hosted_stage.hpp"

namespace pipetrain {

namespace {

thread_local int depth = 0;

}  // namespace

std::string CallbackWatch::Name::text() const {
  std::string text = call;
  if (action != nullptr) text += (text.empty() ? "" : " of ") + to_string(*action, 2);
  if (microbatch >= 0) text += " of microbatch " + std::to_string(microbatch);
  if (stage != nullptr) text += " on " + name_of(*stage);
  return text;
}

CallbackWatch::Call::Call(CallbackWatch& watch, const Name& name) : watch_(watch), name_(name) {
  const std::lock_guard lock(watch_.mutex_);
  older_ = watch_.newest_;
  (older_ != nullptr ? older_->newer_ : watch_.oldest_) = this;
  watch_.newest_ = this;
  ++depth;
}

CallbackWatch::Call::~Call() {
  const std::lock_guard lock(watch_.mutex_);
  (older_ != nullptr ? older_->newer_ : watch_.oldest_) = newer_;
  (newer_ != nullptr ? newer_->older_ : watch_.newest_) = older_;
  --depth;
  if (watch_.oldest_ == nullptr) watch_.idle_.notify_all();
}

bool CallbackWatch::inside_call() { return depth > 0; }

std::string CallbackWatch::wait_until_idle(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  if (idle_.wait_for(lock, patience, [&] { return oldest_ == nullptr; })) return {};
  return oldest_->name_.text();
}

}  // namespace pipetrain
