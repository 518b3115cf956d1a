#include "actors/engine/stage_compute.hpp"

#include "core/error.hpp"

namespace pipetrain {

std::vector<SlotHandle> make_empty_slots(int count) {
  std::vector<SlotHandle> slots;
  for (int i = 0; i < count; ++i) slots.push_back(std::make_shared<Slot>());
  return slots;
}

void StageCompute::read_state(std::int64_t, const StatePart& part, float*) {
  throw Error(ErrorKind::internal, "this compute keeps no " + part.state);
}

void StageCompute::save_state(std::int64_t, const std::string&) {
  throw Error(ErrorKind::internal, "this compute keeps nothing to save");
}

std::size_t StageCompute::state_elements(const StatePart& part) const {
  throw Error(ErrorKind::internal, "this compute keeps no " + part.state);
}

}  // namespace pipetrain
