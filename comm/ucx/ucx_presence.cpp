#include "comm/ucx/ucx_presence.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace pipetrain {
namespace {

// A waiting process checks at least this often whether the other one is gone.
constexpr std::chrono::milliseconds look_interval{100};

}  // namespace

bool UcxPresence::is_connected(int process) const {
  const std::lock_guard lock(mutex_);
  return connected_.count(process) > 0;
}

void UcxPresence::mark_connected(int process) {
  const std::lock_guard lock(mutex_);
  connected_.insert(process);
  ++news_;
  changed_.notify_all();
}

void UcxPresence::notify() {
  const std::lock_guard lock(mutex_);
  ++news_;
  changed_.notify_all();
}

void UcxPresence::wait_for_news(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit);
}

void UcxPresence::wait_for(const std::set<int>& processes, const std::function<bool(int)>& ready, const UcxPatience& patience) {
  const auto limit = std::chrono::steady_clock::now() + patience.limit;
  for (const int process : processes) {
    for (bool done = false; !done;) {
      std::uint64_t seen = 0;
      {
        const std::lock_guard lock(mutex_);
        seen = news_;
      }
      worker_.call([&] { done = ready(process); });
      if (done) break;
      std::unique_lock lock(mutex_);
      if (abort_cause_) std::rethrow_exception(abort_cause_);
      const auto lost = lost_.find(process);
      if (lost != lost_.end()) refuse(process, lost->second);
      if (control_.is_gone(process)) refuse(process, "it is gone");
      const auto now = std::chrono::steady_clock::now();
      if (now > limit) {
        refuse(process, patience.late + " within " + std::to_string(patience.limit.count()) +
                            " s; check that it runs, and that no firewall is in between");
      }
      changed_.wait_until(lock, std::min(limit, now + look_interval), [&] { return news_ != seen; });
    }
  }
}

void UcxPresence::refuse(int process, const std::string& why) const {
  throw Error(ErrorKind::peer_lost, to_string(control_.info(process)) + " cannot be reached over UCX: " + why);
}

void UcxPresence::lose(int process, const std::string& why) {
  ControlPlane::OnLost handler;
  {
    const std::lock_guard lock(mutex_);
    lost_.emplace(process, why);
    ++news_;
    changed_.notify_all();
    if (lost_handler_ && !lost_reported_ && !aborted_ && !leaving_) {
      lost_reported_ = true;
      handler = lost_handler_;
    }
  }
  if (handler) handler(process, why);
}

void UcxPresence::on_lost(ControlPlane::OnLost handler) {
  std::pair<int, std::string> first{-1, {}};
  {
    const std::lock_guard lock(mutex_);
    lost_handler_ = std::move(handler);
    if (lost_handler_ && !lost_.empty() && !lost_reported_ && !aborted_) {
      lost_reported_ = true;
      first = *lost_.begin();
    }
  }
  if (first.first < 0) return;
  worker_.post([this, first] {
    ControlPlane::OnLost waiting;
    {
      const std::lock_guard lock(mutex_);
      waiting = lost_handler_;
    }
    if (waiting) waiting(first.first, first.second);
  });
}

void UcxPresence::abort(std::exception_ptr cause) noexcept {
  const std::lock_guard lock(mutex_);
  if (!abort_cause_) abort_cause_ = std::move(cause);
  aborted_ = true;
  ++news_;
  changed_.notify_all();
}

}  // namespace pipetrain
