// A stage's compute that is one worker and one object for each tensor-parallel rank. Every rank runs the same actions; the
// stage hears of one when all ranks have enqueued it, and again when all have run it.
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

// What a rank means by an action. All methods but those that say otherwise run on the rank's worker and only enqueue.
class ComputeRank {
 public:
  // rank: of the mesh. stream: the name of the stream that computes.
  ComputeRank(Device& device, int rank, const std::string& stream) : device_(device), rank_(rank), streams_(device, stream) {}
  virtual ~ComputeRank() = default;

  Device& device() const { return device_; }
  int rank() const { return rank_; }
  RankStreams& streams() { return streams_; }
  // A piece of a queue's slot. Before the first step, on any thread.
  virtual Lane make_lane(schedules::InputKind kind, int chunk) = 0;

  virtual void begin_step(const StepInfo& step) = 0;
  virtual void begin_early(const StepInfo& coming) { static_cast<void>(coming); }  // see StageCompute
  // Everything of the launch on this rank's lane.
  virtual void run(const Launch& launch) = 0;
  // Both of a braid, which a rank may run in turns.
  virtual void run_braid(const Launch& first, const Launch& second) {
    run(first);
    run(second);
  }
  // Of an action that has run, on some host thread: what it has to say, added to `result`.
  virtual void add_result(const schedules::Action& action, StageResult& result) const = 0;

  // Stops the device's work with this cause. Thread-safe.
  virtual void fail(std::exception_ptr cause) = 0;
  // Waits until nothing of this rank touches any memory. On any thread.
  virtual void wait_until_idle() noexcept { streams_.wait_until_idle(); }

 private:
  Device& device_;
  int rank_;
  RankStreams streams_;
};

class RankedCompute : public StageCompute {
 public:
  struct RankMaker {
    MeshCoordinate id;
    std::function<std::unique_ptr<ComputeRank>()> make;  // called on the rank's worker
  };
  // All ranks at once; throws the first failure.
  explicit RankedCompute(const std::vector<RankMaker>& ranks);
  ~RankedCompute() override;

  std::vector<SlotHandle> make_slots(schedules::InputKind kind, int chunk, int count) override;
  LaneSources lane_sources() const override;
  void attach(std::shared_ptr<StageEvents> events) override { events_ = std::move(events); }
  void begin_step(const StepInfo& step) override;
  void begin_early(const StepInfo& coming) override;
  void launch(const Launch& launch) override;
  void abort(std::exception_ptr cause) noexcept override;

  // Waits until nothing of any rank touches any memory.
  void wait_until_idle() noexcept;

 protected:
  ComputeRank& rank(std::size_t index) const { return *ranks_[index]; }
  std::size_t ranks() const { return ranks_.size(); }
  void on_all_workers(const std::function<void(ComputeRank&)>& job);
  Worker& worker(std::size_t index) { return *workers_[index]; }
  // For a destructor whose members the workers' jobs use: runs what is left of them.
  void end_workers() { workers_.clear(); }
  StageEvents& events() { return *events_; }

 private:
  struct Running;

  void issue(ComputeRank& rank, const std::shared_ptr<Running>& running);
  void finished(ComputeRank& rank, const std::shared_ptr<Running>& running);

  std::optional<Launch> braided_;  // the first of a braid, until its second comes
  std::shared_ptr<StageEvents> events_;
  std::vector<std::unique_ptr<ComputeRank>> ranks_;
  std::vector<std::unique_ptr<Worker>> workers_;  // after the ranks: they end first
};

}  // namespace pipetrain
