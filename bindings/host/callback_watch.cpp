#include "bindings/host/callback_watch.hpp"

#include <utility>

namespace pipetrain {

namespace {

thread_local int depth = 0;

}  // namespace

CallbackWatch::Call::Call(CallbackWatch& watch, std::string what) : watch_(watch) {
  const std::lock_guard lock(watch_.mutex_);
  entry_ = watch_.calls_.insert(watch_.calls_.end(), std::move(what));
  ++depth;
}

CallbackWatch::Call::~Call() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.calls_.erase(entry_);
  --depth;
  if (watch_.calls_.empty()) watch_.idle_.notify_all();
}

bool CallbackWatch::inside_call() { return depth > 0; }

std::string CallbackWatch::wait_until_idle(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  if (idle_.wait_for(lock, patience, [&] { return calls_.empty(); })) return {};
  return calls_.front();
}

}  // namespace pipetrain
