// The queues between the stages of a simulated step: when each input arrives, which slots are free, and the feeders at both
// ends. Internal to schedules/.
#pragma once

#include <vector>

#include "schedules/plan/plan_needs.hpp"
#include "schedules/simulate/free_slots.hpp"
#include "schedules/simulate/simulate.hpp"
#include "schedules/simulate/simulated_protocols.hpp"

namespace pipetrain::schedules {

class SimulatedQueues {
 public:
  // The plan and the protocols outlive it. `needs` are those of the plan for the order and slots of the simulation.
  SimulatedQueues(const Plan& plan, const std::vector<StageNeeds>& needs, QueueRoom room, SimulatedProtocols& protocols);

  // The time at which an input of virtual stage v arrives.
  double& activation(int v, int microbatch) { return at(v).activation[static_cast<std::size_t>(microbatch)]; }
  double& gradient(int v, int microbatch) { return at(v).gradient[static_cast<std::size_t>(microbatch)]; }
  // Take a slot of the queue into virtual stage v and return when it became free; 0 with room for all.
  double take_activation_slot(int v) { return has_room_ ? 0 : at(v).activation_slots.take(); }
  double take_gradient_slot(int v) { return has_room_ ? 0 : at(v).gradient_slots.take(); }

  // Frees a slot of the queue into virtual stage v. The feeders are never late: they fill their slots at once.
  void free_slot(InputKind kind, int v, double time);

 private:
  // The inputs of a virtual stage.
  struct Receiver {
    std::vector<double> activation, gradient;  // [microbatch], when the data arrives
    FreeSlots activation_slots, gradient_slots;
  };

  Receiver& at(int v) { return receivers_[static_cast<std::size_t>(v)]; }
  void give_slots(int v, const ChunkNeeds& slots);
  void give_room(int v);

  const Plan& plan_;
  SimulatedProtocols& protocols_;
  bool has_room_;
  std::vector<Receiver> receivers_;
  int fed_tokens_ = 0, fed_targets_ = 0;
};

}  // namespace pipetrain::schedules
