// Lets the processes of a pipeline begin and end a step together. Each calls step(); the engine runs steps only in
// process 0, which waits until all others have called it with their inputs, and sends them the verdict afterwards.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/engine/step.hpp"
#include "comm/control_plane.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

// The identity of a step: the same number, kind and step in all processes.
struct StepCall {
  std::int64_t round = 0;  // counts the steps and evaluations of a pipeline together, from 1
  schedules::StepKind kind = schedules::StepKind::training;
  std::int64_t step = 0;  // its number as the caller counts
  bool operator==(const StepCall&) const = default;
};
// Returns "step 3", "evaluation 1".
std::string to_string(const StepCall& call);

// The outcome of a successful step, for every process.
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

  // Waits until a message has arrived since the last call, or for this long.
  void wait(std::chrono::milliseconds longest);

  // Process 0 calls the three functions below.
  // Returns the processes that have not come yet. Throws Error(input) that names one that came for another step.
  std::vector<int> missing(const StepCall& call) const;
  void begin(const StepCall& call);
  void end(const StepCall& call, const StepEnd& end);

  // The other processes call the three functions below.
  void come(const StepCall& call);
  bool begun(const StepCall& call) const;
  std::optional<StepEnd> ended(const StepCall& call) const;

 private:
  void received(int from, std::span<const std::byte> message);
  void send_to_others(const Bytes& message);

  std::shared_ptr<ControlPlane> control_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool news_ = false;
  std::vector<StepCall> came_;          // by process: the latest call
  std::int64_t begun_ = 0, ended_ = 0;  // rounds
  StepEnd end_;
};

}  // namespace pipetrain
