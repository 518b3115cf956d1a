// The threads on which blocking code does the actions of stages. Waking a thread takes longer than a short action does, most of
// all on another core. So only what comes from elsewhere wakes one; a thread that is done takes what its own answer made ready,
// and wakes another for what it leaves.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "actors/engine/stage_compute.hpp"

namespace pipetrain {

// As many threads as lanes have joined: an action that takes long, or for ever, keeps no other lane waiting. Those of a lane
// run one at a time, in the order of add(), on whichever thread is free: on the same one always where one lane has joined.
// Thread-safe. The last one who holds it must not be one of its threads.
class ActionThreads {
 public:
  class Lane {
   public:
    virtual ~Lane() = default;
    virtual void act(const Launch& launch) noexcept = 0;

   private:
    friend class ActionThreads;
    std::deque<Launch> waiting_;
    bool busy_ = false;  // an action of it runs, or it is in ready_
    bool leaves_ = false;
  };

  ActionThreads() = default;
  ~ActionThreads();  // after the last lane has left
  ActionThreads(const ActionThreads&) = delete;
  ActionThreads& operator=(const ActionThreads&) = delete;

  void join(Lane& lane);  // throws std::system_error where there is no further thread
  void add(Lane& lane, const Launch& launch);
  // Wakes a thread for what waits, also where one that is at work should take it: which does not return to it in a failed run.
  void look_again();
  // Forgets what waits, and returns when nothing of the lane runs. Not from its act().
  void leave(Lane& lane);

 private:
  void work();
  void act(Lane& lane, std::unique_lock<std::mutex>& lock);
  // Whether a sleeping thread should be woken: not where one is on its way, which wakes the next itself.
  bool claim_wake();

  std::mutex mutex_;  // of all, also of the lanes' members
  std::condition_variable ready_or_end_, idle_;
  std::deque<Lane*> ready_;  // each once
  std::vector<std::thread> threads_;
  int asleep_ = 0;
  bool waking_ = false, ends_ = false;
};

}  // namespace pipetrain
