// The actor that feeds one replica: tokens to the first virtual stage, targets to the last, as their queues have room. Where
// these run in several processes, each has a feeder for those that it runs.
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
  // tokens, targets: the queues; null for one that is not here.
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
    std::size_t step = 0;  // of steps_
    int next = 0;          // microbatch of it
  };

  // The outlet to fill next: the one that is behind, so that a stage with both ends has what its first microbatch needs before
  // others are read. Null when none has anything to fill, or room for it.
  Outlet* next_outlet();
  void begin(const StepInfo& step);
  void end_filled_steps();
  void pump();

  int replica_;
  bool is_brief_;
  std::shared_ptr<InputSource> source_;
  std::vector<Outlet> outlets_;
  caf::actor supervisor_;
  std::deque<StepInfo> steps_;             // to fill: the one that some outlet is at, and one that comes behind it
  std::optional<std::int64_t> announced_;  // the step that is among them although it has not begun
  bool is_over_ = false;
};

}  // namespace pipetrain
