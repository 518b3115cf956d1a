#include "schedules/simulate/simulated_queues.hpp"

namespace pipetrain::schedules {

SimulatedQueues::SimulatedQueues(const Plan& plan, const std::vector<StageNeeds>& needs, QueueRoom room,
                                 SimulatedProtocols& protocols)
    : plan_(plan),
      protocols_(protocols),
      has_room_(room == QueueRoom::all),
      receivers_(static_cast<std::size_t>(plan.placement.virtual_stages())) {
  for (int v = 0; v < plan.placement.virtual_stages(); ++v) {
    const StageChunk place = plan.placement.at(v);
    const ChunkNeeds& slots = needs[static_cast<std::size_t>(place.stage)].chunks[static_cast<std::size_t>(place.chunk)];
    at(v).activation.resize(static_cast<std::size_t>(plan.microbatches));
    at(v).gradient.resize(static_cast<std::size_t>(plan.microbatches));
    for (int i = 0; i < slots.target_slots; ++i) free_slot(InputKind::target, v, 0);
    has_room_ ? give_room(v) : give_slots(v, slots);
  }
}

void SimulatedQueues::give_slots(int v, const ChunkNeeds& slots) {
  at(v).activation_slots.resize(slots.activation_slots);
  at(v).gradient_slots.resize(slots.gradient_slots);
  for (int i = 0; i < slots.activation_slots; ++i) free_slot(InputKind::activation, v, 0);
  for (int i = 0; i < slots.gradient_slots; ++i) free_slot(InputKind::gradient, v, 0);
}

// Gives virtual stage v, once for the step, a credit for every message and all inputs from the feeder.
void SimulatedQueues::give_room(int v) {
  for (int i = 0; i < plan_.microbatches; ++i) {
    if (v == 0) free_slot(InputKind::activation, 0, 0);
    if (v > 0) protocols_.credit_returned(InputKind::gradient, v);
    if (v + 1 < plan_.placement.virtual_stages()) protocols_.credit_returned(InputKind::activation, v);
  }
}

void SimulatedQueues::free_slot(InputKind kind, int v, double time) {
  if (kind == InputKind::target) {
    if (fed_targets_ < plan_.microbatches) protocols_.input_arrived(InputKind::target, v, fed_targets_++);
  } else if (kind == InputKind::activation && v == 0) {
    if (fed_tokens_ == plan_.microbatches) return;
    activation(0, fed_tokens_) = time;
    protocols_.input_arrived(InputKind::activation, 0, fed_tokens_++);
  } else {
    if (has_room_) return;  // no producer waits for it
    const bool is_activation = kind == InputKind::activation;
    (is_activation ? at(v).activation_slots : at(v).gradient_slots).give_back(time);
    protocols_.credit_returned(kind, is_activation ? v - 1 : v + 1);
  }
}

}  // namespace pipetrain::schedules
