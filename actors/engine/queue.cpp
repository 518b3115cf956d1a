#include "actors/engine/queue.hpp"

namespace pipetrain {

QueueActor::QueueActor(caf::actor_config& config, QueueRoute route, std::vector<SlotHandle> slots)
    : caf::event_based_actor(config), route_(route), slots_(std::move(slots)) {}

caf::behavior QueueActor::make_behavior() {
  return {
      [this](Filled& filled) {
        send(consumer_,
             Arrived{route_.kind, route_.consumer_chunk, filled.microbatch, std::move(filled.slot), filled.depends_on});
      },
      [this](Released& released) {
        send(producer_, Credit{route_.kind, route_.producer_chunk, std::move(released.slot)});
      },
      [this](ConnectQueue& ends) {
        producer_ = ends.producer;
        consumer_ = ends.consumer;
        for (auto& slot : slots_) send(producer_, Credit{route_.kind, route_.producer_chunk, std::move(slot)});
        slots_.clear();
      },
  };
}

void QueueActor::on_exit() {
  producer_ = nullptr;
  consumer_ = nullptr;
}

}  // namespace pipetrain
