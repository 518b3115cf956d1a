// The weights that operations read where each replica steps only its own ranges of them. All weights are always on the
// device; after a step each unit is gathered from its owners as soon as it has been stepped, while the rank goes on.
// The next reader of a block waits for it. Not thread-safe: used by the rank's worker only.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "actors/training/state/step_parameters.hpp"

namespace pipetrain {

class PublishedParameters final : public StepParameters {
 public:
  // weights: [layout.weight_elements], in which every replica steps its own ranges. All arguments must outlive it.
  PublishedParameters(const Setup& setup, const Replicas& replicas, const Tensor& weights);

  void begin_step(schedules::StepKind kind) override;
  void publish(std::size_t unit) override;
  void loaded() override { unpublished_ = true; }
  void set_rehearsing(bool) override {}
  Tensor settled() override;
  const std::vector<Tensor>& acquire(std::size_t block) override;
  void release(std::size_t) override {}

 private:
  void wait_for(std::size_t unit);

  Setup setup_;
  Replicas replicas_;
  Tensor weights_;
  std::vector<std::vector<Tensor>> views_;          // by block
  std::vector<std::vector<std::size_t>> units_of_;  // by block
  std::unique_ptr<Event> stepped_;
  std::vector<std::unique_ptr<Event>> gathered_;  // by unit
  std::vector<bool> on_its_way_;                  // by unit
  bool unpublished_ = false;                      // weights that were loaded
};

}  // namespace pipetrain
