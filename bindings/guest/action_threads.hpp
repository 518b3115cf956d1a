// The threads on which blocking code runs the actions of stages. Waking a thread takes longer than a short action,
// especially on another core. So only work from elsewhere wakes a thread; a thread that has finished takes an action
// that its own answer made ready, and wakes another for the rest.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "actors/engine/stage_compute.hpp"

namespace pipetrain {

// One thread per joined lane: an action that takes long, or for ever, keeps no other lane waiting. Actions of a lane
// run one at a time, in the order of add(), on any free thread; with a single lane always on the same one. Thread-safe.
// The last owner must not be one of its threads.
class ActionThreads {
 public:
  class Lane {
   public:
    virtual ~Lane() = default;
    virtual void act(const Launch& launch) noexcept = 0;

   private:
    friend class ActionThreads;
    std::deque<Launch> waiting_;
    bool busy_ = false;  // one of its actions is running, or it is in ready_
    bool leaves_ = false;
  };

  ActionThreads() = default;
  ~ActionThreads();  // after the last lane has left
  ActionThreads(const ActionThreads&) = delete;
  ActionThreads& operator=(const ActionThreads&) = delete;

  void join(Lane& lane);  // throws std::system_error where no further thread can be started
  void add(Lane& lane, const Launch& launch);
  // Wakes a thread for waiting actions even where a busy one should take them: in a failed run, that one does not return.
  void look_again();
  // Drops waiting actions, and returns when no action of the lane is running. Not from its act().
  void leave(Lane& lane);

 private:
  void work();
  void act(Lane& lane, std::unique_lock<std::mutex>& lock);
  // True when a sleeping thread should be woken: not while a woken one is starting, which wakes the next itself.
  bool claim_wake();

  std::mutex mutex_;  // guards everything, including the lanes' members
  std::condition_variable ready_or_end_, idle_;
  std::deque<Lane*> ready_;  // each once
  std::vector<std::thread> threads_;
  int asleep_ = 0;
  bool waking_ = false, ends_ = false;
};

}  // namespace pipetrain
