// How the processes of a pipeline begin and end a step together. Each calls step(); the engine runs steps in process 0 alone,
// which waits until all others have come with their inputs, and tells them afterwards what was decided.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "actors/engine/step.hpp"
#include "comm/control_plane.hpp"

namespace pipetrain {

// What every process is told of a step that ended well.
struct StepEnd {
  std::vector<StageResult> results;  // of each stage's N, replica-major
  Verdict verdict;
};

// Thread-safe. No call but wait() blocks.
class StepMeeting {
 public:
  // Takes the channel `run` of the control plane.
  explicit StepMeeting(std::shared_ptr<ControlPlane> control);
  ~StepMeeting();
  StepMeeting(const StepMeeting&) = delete;
  StepMeeting& operator=(const StepMeeting&) = delete;

  // Until something has been heard since the last call, or this long.
  void wait(std::chrono::milliseconds longest);

  // --- process 0 ---
  // The processes that have not come to this step. Throws Error(input) that names one that came to another.
  std::vector<int> missing(std::int64_t step) const;
  void begin(std::int64_t step);
  void end(std::int64_t step, const StepEnd& end);

  // --- the others ---
  void come(std::int64_t step);
  bool begun(std::int64_t step) const;
  std::optional<StepEnd> ended(std::int64_t step) const;

 private:
  void received(int from, std::span<const std::byte> message);
  void tell_others(const Bytes& message);

  std::shared_ptr<ControlPlane> control_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool news_ = false;
  std::vector<std::int64_t> came_;  // by process: the latest step; 0: none
  std::int64_t begun_ = 0, ended_ = 0;
  StepEnd end_;
};

}  // namespace pipetrain
