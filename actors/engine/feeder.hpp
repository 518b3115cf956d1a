// The actor that feeds one replica: it fills the queues of the first virtual stage with tokens and those of the last with
// targets while they have room. Where these stages run in several processes, each process has a feeder for its own stages.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "actors/engine/actor_runner.hpp"
#include "actors/engine/protocol.hpp"
#include "actors/engine/stage_compute.hpp"

namespace pipetrain {

class FeederActor : public caf::event_based_actor, public BriefActor {
 public:
  // tokens, targets: the queues; null for a queue in another process.
  FeederActor(caf::actor_config& config, int replica, std::shared_ptr<InputSource> source, caf::actor tokens,
              caf::actor targets, caf::actor supervisor);

  caf::behavior make_behavior() override;
  void on_exit() override;
  bool is_brief() const override { return is_brief_; }
  const char* name() const override { return "feeder"; }

 private:
  struct Outlet {
    schedules::InputKind kind;
    caf::actor queue;
    std::deque<SlotHandle> credits = {};
    std::size_t step = 0;  // index into steps_
    int next = 0;          // the next microbatch of that step
  };

  // Returns the outlet that is furthest behind, so that a stage with both ends gets its first microbatch before later
  // ones are read. Null when no outlet has both work and a free slot.
  Outlet* next_outlet();
  void begin(const StepInfo& step);
  void end_filled_steps();
  void pump();

  int replica_;
  bool is_brief_;
  std::shared_ptr<InputSource> source_;
  std::vector<Outlet> outlets_;
  caf::actor supervisor_;
  std::deque<StepInfo> steps_;             // steps to fill: the running one, and at most one that follows
  std::optional<std::int64_t> announced_;  // the step in steps_ that has not begun yet
  bool is_over_ = false;
};

}  // namespace pipetrain
