// The interface through which guest code answers for a stage. Wrong answers are refused here, before they reach an actor.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/engine/stage_compute.hpp"

namespace pipetrain {

// Thread-safe; no call but ran() blocks.
class GuestAnswers {
 public:
  explicit GuestAnswers(StageId id) : id_(id) {}

  const StageId& id() const { return id_; }

  // See StageEvents. Throws Misuse for an action that was not launched, or is answered twice or in the wrong order, and
  // once the pipeline is gone. If both times are zero, the action ran from its launch until now.
  void enqueued(const schedules::Action& action);
  void completed(const schedules::Action& action, const ActionTimes& times, StageResult result);
  // Does the same as StageEvents::ran(). close() does not wait for it, so the compute's destructor does. Throws as the others.
  void ran(const schedules::Action& action, const ActionTimes& times, StageResult result);
  void failed(std::exception_ptr cause);

  // The pipeline calls the functions below.
  void open(std::shared_ptr<StageEvents> events);
  void close();  // called before the actors end
  void launched(const schedules::Action& action);

 private:
  struct Running {
    schedules::Action action;
    std::chrono::steady_clock::time_point launched;
    bool enqueued = false;
  };
  [[noreturn]] void refuse(const schedules::Action& action, const char* call, const char* why) const;
  StageEvents& events() const;
  void check_end(const schedules::Action& action, const char* call, const ActionTimes& times, const StageResult& result) const;
  std::vector<Running>::iterator find(const schedules::Action& action);

  StageId id_;
  std::mutex mutex_;  // held while an answer is sent, except by ran(), so that close() waits for it
  std::shared_ptr<StageEvents> events_;
  std::vector<Running> running_;  // as many as run ahead
};

// Returns "stage 1", or "stage 1 of replica 2".
std::string name_of(const StageId& id);

}  // namespace pipetrain
