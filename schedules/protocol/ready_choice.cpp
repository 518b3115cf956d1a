#include "schedules/protocol/ready_choice.hpp"

#include <algorithm>

namespace pipetrain::schedules {

namespace {

std::size_t place_of(ActionKind kind) {
  if (kind == ActionKind::forward) return 0;
  return kind == ActionKind::weight_grad ? 2 : 1;
}

}  // namespace

ReadyChoice::ReadyChoice(const Plan& plan, int stage)
    : rule_(plan.ready_rule),
      chunks_(plan.placement.chunks()),
      microbatches_(plan.microbatches),
      cap_(peak_in_flight(plan.stages[static_cast<std::size_t>(stage)])),
      state_(static_cast<std::size_t>(chunks_)),
      split_(static_cast<std::size_t>(chunks_) * static_cast<std::size_t>(microbatches_)) {
  for (auto& positions : positions_) positions.resize(split_.size());
  std::int32_t position = 0;
  for (const Action& action : plan.stages[static_cast<std::size_t>(stage)]) {
    if (!is_compute(action.kind)) {
      ends_of_step_.push_back(action);
      continue;
    }
    const auto at = index(action.chunk, action.microbatch);
    positions_[place_of(action.kind)][at] = position++;
    if (action.kind == ActionKind::input_grad) split_[at] = 1;
    if (action.kind == ActionKind::backward) positions_[2][at] = positions_[1][at];
  }
}

void ReadyChoice::begin_step() {
  held_ = 0;
  for (Chunk& chunk : state_) chunk = {};
}

std::optional<Action> ReadyChoice::forward(int chunk) const {
  const int microbatch = state_[static_cast<std::size_t>(chunk)].next_forward;
  const int later_chunks = chunks_ - 1 - chunk;
  if (microbatch == microbatches_ || held_ + later_chunks >= cap_) return std::nullopt;
  return Action{ActionKind::forward, static_cast<std::int16_t>(chunk), microbatch};
}

std::optional<Action> ReadyChoice::backward(int chunk) const {
  const Chunk& state = state_[static_cast<std::size_t>(chunk)];
  const int microbatch = state.next_backward;
  if (microbatch == state.next_forward) return std::nullopt;
  const bool split = split_[index(chunk, microbatch)] != 0;
  // A whole backward includes weight gradients, which must add in microbatch order.
  if (!split && state.next_weight_grad < microbatch) return std::nullopt;
  return Action{split ? ActionKind::input_grad : ActionKind::backward, static_cast<std::int16_t>(chunk), microbatch};
}

std::optional<Action> ReadyChoice::weight_grad(int chunk) const {
  const Chunk& state = state_[static_cast<std::size_t>(chunk)];
  if (state.next_weight_grad == state.next_backward) return std::nullopt;
  return Action{ActionKind::weight_grad, static_cast<std::int16_t>(chunk), state.next_weight_grad};
}

void ReadyChoice::launched(const Action& action) {
  Chunk& state = state_[static_cast<std::size_t>(action.chunk)];
  switch (action.kind) {
    case ActionKind::forward:
      ++state.next_forward, ++held_;
      break;
    case ActionKind::input_grad:
      ++state.next_backward;
      break;
    case ActionKind::weight_grad:
      ++state.next_weight_grad, --held_;
      break;
    case ActionKind::backward:
      ++state.next_backward, ++state.next_weight_grad, --held_;
      break;
    default:
      break;
  }
}

std::vector<Action> ReadyChoice::candidates() const {
  std::vector<Action> all;
  for (int chunk = 0; chunk < chunks_; ++chunk)
    for (const auto& action : {backward(chunk), forward(chunk), weight_grad(chunk)})
      if (action) all.push_back(*action);
  return all;
}

int ReadyChoice::first_planned() const {
  int first = static_cast<int>(3 * split_.size());
  for (int chunk = 0; chunk < chunks_; ++chunk) {
    const Chunk& state = state_[static_cast<std::size_t>(chunk)];
    const auto look = [&](std::size_t row, int next) {
      if (next < microbatches_) first = std::min(first, static_cast<int>(positions_[row][index(chunk, next)]));
    };
    look(0, state.next_forward);
    look(1, state.next_backward);
    look(2, state.next_weight_grad);
  }
  return first;
}

int ReadyChoice::position(const Action& action) const {
  return positions_[place_of(action.kind)][index(action.chunk, action.microbatch)];
}

}  // namespace pipetrain::schedules
