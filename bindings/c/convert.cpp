#include "bindings/c/convert.hpp"

#include <limits>
#include <string>

#include "bindings/c/structs.hpp"
#include "core/error.hpp"

namespace pipetrain::c_api {

using schedules::ActionKind;

namespace {

int checked(const char* name, int value, int most) {
  if (value < 0 || value > most)
    throw Error(ErrorKind::input, std::string(name) + ": " + std::to_string(value) + "; use 0 to " + std::to_string(most));
  return value;
}

ActionKind life_of(const char* name, int until, ActionKind otherwise) {
  switch (checked(name, until, PIPETRAIN_UNTIL_W)) {
    case PIPETRAIN_UNTIL_F:
      return ActionKind::forward;
    case PIPETRAIN_UNTIL_I:
      return ActionKind::input_grad;
    case PIPETRAIN_UNTIL_W:
      return ActionKind::weight_grad;
    default:
      return otherwise;
  }
}

}  // namespace

pipetrain_action to_c(const schedules::Action& action) {
  return {sizeof(pipetrain_action), static_cast<int32_t>(action.kind), action.chunk, action.microbatch};
}

schedules::Action from_c(const pipetrain_action* given) {
  const pipetrain_action action = read_struct(given, "action");
  schedules::Action result;
  result.kind = static_cast<ActionKind>(checked("action.kind", action.kind, PIPETRAIN_X));
  result.chunk = static_cast<std::int16_t>(
      checked("action.chunk", action.chunk, std::numeric_limits<decltype(schedules::Action::chunk)>::max()));
  result.microbatch = action.microbatch;
  return result;
}

Rules read_rules(const pipetrain_rules* given) {
  const pipetrain_rules rules = read_or_default(given, "rules");
  Rules result;
  result.order = static_cast<schedules::Order>(checked("rules.order", rules.order, PIPETRAIN_READY));
  result.life.activation = life_of("rules.activation_life", rules.activation_life, result.life.activation);
  result.life.gradient = life_of("rules.gradient_life", rules.gradient_life, result.life.gradient);
  constexpr int most_run_ahead = 1 << 20;
  if (checked("rules.run_ahead", rules.run_ahead, most_run_ahead) > 0) result.run_ahead = rules.run_ahead;
  return result;
}

std::size_t checked_stage(const schedules::Placement& placement, int stage) {
  return static_cast<std::size_t>(checked("stage", stage, placement.stages() - 1));
}

std::size_t checked_chunk(const schedules::Placement& placement, int chunk) {
  return static_cast<std::size_t>(checked("chunk", chunk, placement.chunks() - 1));
}

pipetrain_chunk_needs to_c(const schedules::ChunkNeeds& needs) {
  return {sizeof(pipetrain_chunk_needs), needs.activation_slots,         needs.gradient_slots, needs.target_slots,
          needs.peak_activations,        needs.peak_pending_weight_grads};
}

}  // namespace pipetrain::c_api
