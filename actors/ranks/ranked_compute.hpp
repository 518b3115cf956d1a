// A stage's compute that has one worker and one ComputeRank for each rank of the stage. Every rank runs the same
// actions; the stage hears when all ranks have enqueued an action, and again when all have run it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/ranks/rank_streams.hpp"
#include "actors/ranks/worker.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// One rank's implementation of the actions. All methods run on the rank's worker and only enqueue, unless they say otherwise.
class ComputeRank {
 public:
  // rank: index in the mesh. stream: the name of the computing stream.
  ComputeRank(Device& device, int rank, const std::string& stream) : device_(device), rank_(rank), streams_(device, stream) {}
  virtual ~ComputeRank() = default;

  Device& device() const { return device_; }
  int rank() const { return rank_; }
  RankStreams& streams() { return streams_; }
  // Returns this rank's lane of a queue's slot. Called before the first step, on any thread.
  virtual Lane make_lane(schedules::InputKind kind, int chunk) = 0;

  virtual void begin_step(const StepInfo& step) = 0;
  virtual void begin_early(const StepInfo& coming) { static_cast<void>(coming); }  // see StageCompute
  // Enqueues the whole action of the launch on this rank's lane.
  virtual void run(const Launch& launch) = 0;
  // Enqueues both actions of a braid; a rank may alternate between them.
  virtual void run_braid(const Launch& first, const Launch& second) {
    run(first);
    run(second);
  }
  // Adds the result of an action that has run to `result`. Runs on some host thread.
  virtual void add_result(const schedules::Action& action, StageResult& result) const = 0;

  // An action that threw leaves memory half used, so this rank runs no other one. On the rank's worker.
  void break_off(const std::exception_ptr& cause) {
    is_broken_ = true;
    streams_.compute().fail(cause);
  }
  bool is_broken() const { return is_broken_; }

  // Stops the device's work with this cause. Thread-safe.
  virtual void fail(std::exception_ptr cause) = 0;
  // Waits until no work of this rank touches any memory. On any thread.
  virtual void wait_until_idle() noexcept { streams_.wait_until_idle(); }

 private:
  Device& device_;
  int rank_;
  RankStreams streams_;
  bool is_broken_ = false;
};

class RankedCompute : public StageCompute {
 public:
  struct RankMaker {
    MeshCoordinate id;
    std::function<std::unique_ptr<ComputeRank>()> make;  // called on the rank's worker
  };
  // Makes all ranks at once; throws the first failure.
  explicit RankedCompute(const std::vector<RankMaker>& ranks);
  ~RankedCompute() override;

  std::vector<SlotHandle> make_slots(schedules::InputKind kind, int chunk, int count) override;
  LaneSources lane_sources() const override;
  void attach(std::shared_ptr<StageEvents> events) override { events_ = std::move(events); }
  void begin_step(const StepInfo& step) override;
  void begin_early(const StepInfo& coming) override;
  void launch(const Launch& launch) override;
  void abort(std::exception_ptr cause) noexcept override;

  // Waits until no work of any rank touches any memory.
  void wait_until_idle() noexcept;

 protected:
  ComputeRank& rank(std::size_t index) const { return *ranks_[index]; }
  std::size_t ranks() const { return ranks_.size(); }
  void on_all_workers(const std::function<void(ComputeRank&)>& job);
  Worker& worker(std::size_t index) { return *workers_[index]; }
  // For a derived destructor whose members the workers' jobs use: runs the remaining jobs.
  void end_workers() { workers_.clear(); }
  StageEvents& events() { return *events_; }

 private:
  struct Running;

  void issue(ComputeRank& rank, const std::shared_ptr<Running>& running);
  void finished(ComputeRank& rank, const std::shared_ptr<Running>& running);

  std::optional<Launch> braided_;  // the first action of a braid, until the second is launched
  std::shared_ptr<StageEvents> events_;
  std::vector<std::unique_ptr<ComputeRank>> ranks_;
  std::vector<std::unique_ptr<Worker>> workers_;  // declared after the ranks, so that they end first
};

}  // namespace pipetrain
