#include "schedules/plan/plan.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <stdexcept>

#include "schedules/plan/residents.hpp"

namespace pipetrain::schedules {

namespace {

void check_sizes(int stages, int chunks) {
  if (stages < 1) throw std::invalid_argument("a placement needs at least one stage, not " + std::to_string(stages));
  if (chunks < 1 || chunks > std::numeric_limits<std::int16_t>::max())
    throw std::invalid_argument("a stage holds 1 to 32767 chunks, not " + std::to_string(chunks));
}

// Returns the chunks in the order in which their last compute actions are in the stage's list.
std::vector<std::int16_t> chunks_by_end(const std::vector<Action>& actions, int chunks) {
  std::vector<std::int16_t> order;
  for (auto action = actions.rbegin(); action != actions.rend() && static_cast<int>(order.size()) < chunks; ++action)
    if (is_per_chunk(action->kind) && std::find(order.begin(), order.end(), action->chunk) == order.end())
      order.push_back(action->chunk);
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

Placement::Placement(int stages, int chunks, std::vector<StageChunk> of_virtual)
    : stages_(stages), chunks_(chunks), of_virtual_(std::move(of_virtual)), of_chunk_(of_virtual_.size()) {
  for (int v = 0; v < virtual_stages(); ++v) of_chunk_[static_cast<std::size_t>(at(v).stage * chunks + at(v).chunk)] = v;
}

Placement Placement::looping(int stages, int chunks) {
  check_sizes(stages, chunks);
  std::vector<StageChunk> of_virtual;
  of_virtual.reserve(static_cast<std::size_t>(stages) * static_cast<std::size_t>(chunks));
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (int stage = 0; stage < stages; ++stage) of_virtual.push_back({stage, chunk});
  return {stages, chunks, std::move(of_virtual)};
}

Placement Placement::v_shape(int stages) {
  check_sizes(stages, 2);
  std::vector<StageChunk> of_virtual;
  for (int stage = 0; stage < stages; ++stage) of_virtual.push_back({stage, 0});
  for (int stage = stages - 1; stage >= 0; --stage) of_virtual.push_back({stage, 1});
  return {stages, 2, std::move(of_virtual)};
}

std::vector<StageChunk> tied_sum_places(const Placement& placement) {
  const StageChunk embedding = placement.at(0), head = placement.at(placement.virtual_stages() - 1);
  if (embedding.stage == head.stage) return {embedding};
  return {embedding, head};
}

Plan with_end_of_step(Plan plan, const EndOfStep& end) {
  const Placement& placement = plan.placement;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    auto& actions = plan.stages[static_cast<std::size_t>(stage)];
    const auto chunks = chunks_by_end(actions, placement.chunks());
    const auto append = [&](ActionKind kind, std::int16_t chunk) { actions.push_back({kind, chunk, -1}); };
    if (end.reduce_grads)
      for (const auto chunk : chunks) append(ActionKind::reduce_grads, chunk);
    if (end.sum_replicated)
      for (const auto chunk : chunks) append(ActionKind::sum_replicated, chunk);
    if (end.sum_tied)
      for (const StageChunk place : tied_sum_places(placement))
        if (place.stage == stage) append(ActionKind::sum_tied, static_cast<std::int16_t>(place.chunk));
    append(ActionKind::norm, 0);
    append(ActionKind::optimizer, 0);
  }
  return plan;
}

std::vector<Action> forward_pass(const std::vector<Action>& actions) {
  std::vector<Action> forwards;
  std::copy_if(actions.begin(), actions.end(), std::back_inserter(forwards),
               [](const Action& action) { return action.kind == ActionKind::forward; });
  forwards.push_back({ActionKind::norm, 0, -1});
  forwards.push_back({ActionKind::optimizer, 0, -1});
  return forwards;
}

Plan forward_pass(const Plan& plan) {
  Plan forwards = plan;
  forwards.custom.clear();
  forwards.braids.clear();
  for (auto& actions : forwards.stages) actions = forward_pass(actions);
  return forwards;
}

int peak_in_flight(const std::vector<Action>& actions) {
  Residents residents;
  int peak = 0;
  for (const Action& action : actions) {
    residents.begin(action);
    peak = std::max(peak, residents.count());
    residents.end(action);
  }
  return peak;
}

}  // namespace pipetrain::schedules
