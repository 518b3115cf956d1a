// The actor between two virtual stages, for one kind of payload. It owns the receiving slots: it gives them to the
// producer as credits, passes filled ones on to the consumer, and takes them back after the last reader.
#pragma once

#include <vector>

#include "actors/engine/actor_runner.hpp"
#include "actors/engine/protocol.hpp"

namespace pipetrain {

struct QueueRoute {
  schedules::InputKind kind;
  int consumer_chunk;
  int producer_chunk;  // 0 when the feeder produces
};

class QueueActor : public caf::event_based_actor, public BriefActor {
 public:
  QueueActor(caf::actor_config& config, QueueRoute route, std::vector<SlotHandle> slots);

  caf::behavior make_behavior() override;
  void on_exit() override;
  bool only_passes_on() const override { return true; }
  const char* name() const override { return "queue"; }

 private:
  QueueRoute route_;
  std::vector<SlotHandle> slots_;  // free slots, until the producer is known
  caf::actor producer_, consumer_;
};

}  // namespace pipetrain
