// The other processes of the run as this one sees them over UCX: connected, lost, or leaving; and the waits for them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "comm/control_plane.hpp"
#include "comm/ucx/ucx_worker.hpp"

namespace pipetrain {

struct UcxPatience {
  std::chrono::seconds limit;
  std::string late;  // describes a process that takes longer: "it did not ..."
};

// Thread-safe, except where a function says otherwise.
class UcxPresence {
 public:
  UcxPresence(UcxWorker& worker, ControlPlane& control) : worker_(worker), control_(control) {}

  bool is_connected(int process) const;
  void mark_connected(int process);

  // On the worker's thread: processes that have said that they leave, or been told that this one does. mark_left() returns
  // false for a process that was one of them already.
  bool has_left(int process) const { return left_.count(process) > 0; }
  bool mark_left(int process) { return left_.insert(process).second; }

  // Reports the first process that is lost, once, to the handler of on_lost().
  void lose(int process, const std::string& why);
  void on_lost(ControlPlane::OnLost handler);
  // Waits end, and no process is reported lost any more.
  void abort(std::exception_ptr cause) noexcept;
  bool aborted() const { return aborted_.load(std::memory_order_relaxed); }
  // From now on no process is reported lost. Returns false where this process was leaving already.
  bool leave() noexcept { return !leaving_.exchange(true); }
  bool leaving() const { return leaving_; }

  // See UcxPeers::wait_for().
  void wait_for(const std::set<int>& processes, const std::function<bool(int process)>& ready, const UcxPatience& patience);
  // Waits until an answer of wait_for() may have changed, or for this long.
  void wait_for_news(std::chrono::milliseconds limit);
  void notify();

 private:
  [[noreturn]] void refuse(int process, const std::string& why) const;

  UcxWorker& worker_;
  ControlPlane& control_;
  std::set<int> left_;  // on the worker's thread

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_.
  std::uint64_t news_ = 0;  // counts changes that somebody may wait for
  std::set<int> connected_;
  std::map<int, std::string> lost_;
  std::exception_ptr abort_cause_;
  ControlPlane::OnLost lost_handler_;
  bool lost_reported_ = false;

  std::atomic<bool> leaving_{false};
  std::atomic<bool> aborted_{false};
};

}  // namespace pipetrain
