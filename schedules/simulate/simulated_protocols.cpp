#include "schedules/simulate/simulated_protocols.hpp"

#include <stdexcept>
#include <string>

namespace pipetrain::schedules {

SimulatedProtocols::SimulatedProtocols(const Plan& plan, Order order, int run_ahead)
    : placement_(plan.placement), to_ask_(plan.stages.size()) {
  const std::shared_ptr<const Plan> shared(std::shared_ptr<const Plan>(), &plan);  // outlives the protocols
  protocols_.reserve(plan.stages.size());
  for (int s = 0; s < plan.placement.stages(); ++s) protocols_.emplace_back(shared, s, order, run_ahead).begin_step();
}

void SimulatedProtocols::verdict() {
  for (int s = 0; s < placement_.stages(); ++s) of(s).verdict(true), to_ask_.insert(s);
}

void SimulatedProtocols::expect_end() const {
  for (int s = 0; s < placement_.stages(); ++s) expect_end_of_step(protocols_[static_cast<std::size_t>(s)], s);
}

void expect_end_of_step(const StageProtocol& protocol, int stage) {
  if (!protocol.step_done())
    throw std::logic_error("the simulation stopped: stage " + std::to_string(stage) + ": " + protocol.waiting_for());
}

}  // namespace pipetrain::schedules
