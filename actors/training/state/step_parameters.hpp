// StepParameters provide the weights that operations read, step by step: from other replicas, or from outside of the
// device. StandingParameters are always there.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "core/process_group.hpp"
#include "model/parameters/parameter_store.hpp"
#include "model/parameters/shard_units.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

class CodedUnits;

// The replicas that divide the weights, and the stream of transfers between them.
struct Replicas {
  Group& group;
  Stream& transfer;
  std::shared_ptr<CodedUnits> coded = nullptr;  // gathers matrices in few bits; null: in full
};

class StepParameters : public ParameterStore {
 public:
  // The common setup of implementations that bring weights. All of it must outlive them.
  struct Setup {
    const ParameterLayout& layout;
    const std::vector<ShardUnit>& units;
    Device& device;
    Stream& compute;   // of the rank
    std::string rank;  // for errors
  };

  // Called before a step's first action. Every replica must make the same steps.
  virtual void begin_step(schedules::StepKind kind) = 0;
  // This rank's part of the unit (model/parameters/shard_units.hpp) has new values once the enqueued work has run: after
  // loading (loaded()), or in the optimizer's step, in which every replica publishes the same units in the same order.
  virtual void publish(std::size_t unit) = 0;
  virtual void loaded() = 0;
  // For a rank that rehearses alone: while true, weights count as present without being brought. Setting it fills their
  // memory with zeros.
  virtual void set_rehearsing(bool rehearsing) = 0;
  // Returns weights that are always there, the first of which is a parameter's; later work on the rank's stream sees them.
  virtual Tensor settled() = 0;
};

// All weights are always on the device, in one arena that this replica alone steps.
class StandingParameters final : public StepParameters {
 public:
  // weights: [layout.weight_elements]
  StandingParameters(const ParameterLayout& layout, const Tensor& weights) : weights_(weights), views_(layout, weights) {}

  void begin_step(schedules::StepKind) override {}
  void publish(std::size_t) override {}
  void loaded() override {}
  void set_rehearsing(bool) override {}
  Tensor settled() override { return weights_; }
  const std::vector<Tensor>& acquire(std::size_t block) override { return views_.acquire(block); }
  void release(std::size_t) override {}

 private:
  Tensor weights_;
  ResidentParameters views_;
};

}  // namespace pipetrain
