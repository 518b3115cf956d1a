#include "actors/training/records/transfer_times.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace pipetrain {
namespace {

using schedules::Action;
using schedules::ActionKind;
using TimePoint = std::chrono::steady_clock::time_point;

// An output: replica, whether it is a gradient, virtual stage, microbatch.
using Output = std::tuple<int, bool, int, int>;

bool makes_gradient(ActionKind kind) { return schedules::gives_input_grad(kind); }

// Returns the virtual stage of another stage whose output the action needs; no value when there is none.
std::optional<int> source_of(const schedules::Placement& placement, int stage, const Action& action) {
  if (action.kind != ActionKind::forward && !makes_gradient(action.kind)) return std::nullopt;
  const int v = placement.virtual_stage(stage, action.chunk);
  const int source = action.kind == ActionKind::forward ? v - 1 : v + 1;
  if (source < 0 || source >= placement.virtual_stages() || placement.at(source).stage == stage) return std::nullopt;
  return source;
}

}  // namespace

std::vector<std::vector<double>> transfer_times(const schedules::Placement& placement, const std::vector<StageTrace>& traces) {
  std::map<Output, TimePoint> made;
  for (const auto& [id, actions] : traces)
    for (const auto& [action, times] : actions)
      if (action.kind == ActionKind::forward || makes_gradient(action.kind))
        made[{id.replica, makes_gradient(action.kind), placement.virtual_stage(id.stage, action.chunk), action.microbatch}] =
            times.end;
  std::vector<std::vector<double>> seconds(static_cast<std::size_t>(placement.virtual_stages() - 1));
  for (const auto& [id, actions] : traces) {
    auto free = TimePoint::max();  // before the first action the stage is never idle
    for (const auto& [action, times] : actions) {
      if (schedules::is_move(action.kind)) continue;
      const auto source = source_of(placement, id.stage, action);
      const auto found = source ? made.find({id.replica, makes_gradient(action.kind), *source, action.microbatch}) : made.end();
      if (found != made.end() && found->second > free && times.start >= found->second) {
        const int v = placement.virtual_stage(id.stage, action.chunk);
        seconds[static_cast<std::size_t>(std::min(v, *source))].push_back(
            std::chrono::duration<double>(times.start - found->second).count());
      }
      free = times.end;
    }
  }
  return seconds;
}

}  // namespace pipetrain
