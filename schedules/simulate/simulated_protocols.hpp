// The protocols of a simulated step's stages, and the stages that may be able to act. Internal to schedules/.
#pragma once

#include <vector>

#include "schedules/plan/plan.hpp"
#include "schedules/plan/stage_set.hpp"
#include "schedules/protocol/stage_protocol.hpp"

namespace pipetrain::schedules {

class SimulatedProtocols {
 public:
  // The plan outlives it. Begins a step on every stage.
  SimulatedProtocols(const Plan& plan, Order order, int run_ahead);

  StageProtocol& of(int stage) { return protocols_[static_cast<std::size_t>(stage)]; }
  // Reports an input of virtual stage v, or a free slot for the output of v.
  void input_arrived(InputKind kind, int v, int microbatch) {
    const StageChunk to = placement_.at(v);
    of(to.stage).input_arrived(kind, to.chunk, microbatch);
    to_ask_.insert(to.stage);
  }
  void credit_returned(InputKind output, int v) {
    const StageChunk sender = placement_.at(v);
    of(sender.stage).credit_returned(output, sender.chunk);
    to_ask_.insert(sender.stage);
  }
  void signalled(int stage, int custom) {
    of(stage).signalled(custom);
    to_ask_.insert(stage);
  }
  void verdict();

  // The stage may be able to act.
  void ask(int stage) { to_ask_.insert(stage); }
  // Returns a stage that may be able to act, and takes it out of these; -1: none.
  int take_asked() { return to_ask_.take_last(); }

  // Throws std::logic_error if a stage has not ended its step, with what it waits for.
  void expect_end() const;

 private:
  const Placement& placement_;
  std::vector<StageProtocol> protocols_;
  StageSet to_ask_;
};

// Throws std::logic_error if the stage has not ended its step, with what it waits for.
void expect_end_of_step(const StageProtocol& protocol, int stage);

}  // namespace pipetrain::schedules
