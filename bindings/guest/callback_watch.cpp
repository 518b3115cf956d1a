#include "bindings/guest/callback_watch.hpp"

#include <atomic>

#include "bindings/guest/guest_answers.hpp"

namespace pipetrain {

namespace {

thread_local int depth = 0;

std::size_t lane_of_thread() {
  static std::atomic<std::size_t> threads = 0;
  thread_local const std::size_t lane = threads++;
  return lane;
}

}  // namespace

std::string CallbackWatch::Name::text() const {
  std::string text = call;
  if (action != nullptr) text += (text.empty() ? "" : " of ") + to_string(*action, 2);
  if (microbatch >= 0) text += " of microbatch " + std::to_string(microbatch);
  if (stage != nullptr) text += " on " + name_of(*stage);
  return text;
}

CallbackWatch::Call::Call(CallbackWatch& watch, const Name& name)
    : lane_(watch.lanes_[lane_of_thread() % watch.lanes_.size()]), name_(name) {
  const std::lock_guard lock(lane_.mutex);
  older_ = lane_.newest;
  (older_ != nullptr ? older_->newer_ : lane_.oldest) = this;
  lane_.newest = this;
  ++depth;
}

CallbackWatch::Call::~Call() {
  const std::lock_guard lock(lane_.mutex);
  (older_ != nullptr ? older_->newer_ : lane_.oldest) = newer_;
  (newer_ != nullptr ? newer_->older_ : lane_.newest) = older_;
  --depth;
  if (lane_.oldest == nullptr) lane_.idle.notify_all();
}

bool CallbackWatch::inside_call() { return depth > 0; }

std::string CallbackWatch::wait_until_idle(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (bool waited = true; waited;) {  // until all are idle in one pass: the end of one call may begin another
    waited = false;
    for (Lane& lane : lanes_) {
      std::unique_lock lock(lane.mutex);
      if (lane.oldest == nullptr) continue;
      waited = true;
      if (!lane.idle.wait_until(lock, deadline, [&] { return lane.oldest == nullptr; })) return lane.oldest->name_.text();
    }
  }
  return {};
}

}  // namespace pipetrain
