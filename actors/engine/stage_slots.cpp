#include "actors/engine/stage_slots.hpp"

#include <algorithm>
#include <utility>

namespace pipetrain {

using schedules::Action;
using schedules::ActionKind;
using schedules::InputKind;

namespace {

SlotHandle& slot_at(std::vector<SlotHandle>& slots, int microbatch) {
  const auto index = static_cast<std::size_t>(microbatch);
  if (slots.size() <= index) slots.resize(index + 1);
  return slots[index];
}

}  // namespace

std::vector<SlotHandle>& StageSlots::InputSlots::of(InputKind kind) {
  if (kind == InputKind::activation) return activations;
  return kind == InputKind::gradient ? gradients : targets;
}

void StageSlots::begin_step(const StepInfo& step) {
  const bool is_training = step.kind == schedules::StepKind::training;
  // In an evaluation nothing reads a forward's inputs after it.
  slot_life_ = step.kind == schedules::StepKind::evaluation ? schedules::SlotLife{ActionKind::forward} : setup_.slot_life;
  step_ = is_training ? step.step : 0;
  judged_ = false;
  for (ChunkSlots& slots : chunks_) {
    for (const auto kind : {InputKind::activation, InputKind::gradient, InputKind::target}) {
      auto& came = slots.coming.of(kind);
      for (std::size_t microbatch = 0; microbatch < came.size(); ++microbatch)
        if (came[microbatch])
          slot_at(slots.running.of(kind), static_cast<int>(microbatch)) = std::exchange(came[microbatch], nullptr);
    }
  }
}

void StageSlots::take_input(Arrived message) {
  if (message.depends_on != 0 && message.depends_on == refused_)
    return actor_.send(queues_of(message.chunk).activations, Released{std::move(message.slot)});
  ChunkSlots& slots = slots_of(message.chunk);
  const bool provisional = message.depends_on != 0 && message.depends_on == step_ && !judged_;
  if (message.kind == InputKind::activation && slots.coming.is_provisional(message.microbatch))
    return fresh_.push_back(std::move(message));
  const bool comes =
      !aborted_ && protocol_.input_arrived(message.kind, message.chunk, message.microbatch) == schedules::StepOf::coming;
  slot_at((comes ? slots.coming : slots.running).of(message.kind), message.microbatch) = std::move(message.slot);
  if (!provisional) return;
  slots.coming.provisional.resize(static_cast<std::size_t>(setup_.plan->microbatches));
  slots.coming.provisional[static_cast<std::size_t>(message.microbatch)] = true;
}

void StageSlots::add_credit(Credit& message) {
  ChunkSlots& slots = slots_of(message.chunk);
  auto& credits = message.kind == InputKind::activation ? slots.activation_credits : slots.gradient_credits;
  credits.push_back(std::move(message.slot));
}

void StageSlots::add_to(Launch& launch) {
  add_inputs(launch);
  add_output(launch);
}

void StageSlots::add_inputs(Launch& launch) {
  ChunkSlots& chunk = slots_of(launch.action.chunk);
  InputSlots& slots = launch.early ? chunk.coming : chunk.running;
  const auto take = [&](std::vector<SlotHandle>& held, ActionKind last_reader) {
    SlotHandle& slot = slot_at(held, launch.action.microbatch);
    if (!slot || !ends_life(last_reader, launch.action.kind)) return slot;
    launch.release.push_back(slot);
    return std::exchange(slot, nullptr);
  };
  launch.activation = take(slots.activations, slot_life_.activation);
  launch.target = take(slots.targets, slot_life_.activation);
  if (launch.action.kind != ActionKind::forward) launch.gradient = take(slots.gradients, slot_life_.gradient);
}

void StageSlots::add_output(Launch& launch) {
  const auto take = [](std::deque<SlotHandle>& credits) {
    SlotHandle slot = std::move(credits.front());
    credits.pop_front();
    return slot;
  };
  ChunkSlots& slots = slots_of(launch.action.chunk);
  const StageSetup::ChunkQueues& queues = queues_of(launch.action.chunk);
  const bool forward = launch.action.kind == ActionKind::forward;
  if (forward && queues.next_activations) launch.output = take(slots.activation_credits);
  const bool sends_gradient = launch.action.kind == ActionKind::backward || launch.action.kind == ActionKind::input_grad;
  if (sends_gradient && queues.previous_gradients) launch.output = take(slots.gradient_credits);
}

void StageSlots::send_output(Launch& launch, std::int64_t depends_on) {
  const StageSetup::ChunkQueues& queues = queues_of(launch.action.chunk);
  const bool forward = launch.action.kind == ActionKind::forward;
  const int own_chunk = forward ? queues.own_next_chunk : queues.own_previous_chunk;
  if (own_chunk >= 0) {
    take_input({forward ? InputKind::activation : InputKind::gradient, own_chunk, launch.action.microbatch,
                std::move(launch.output), depends_on});
  } else {
    actor_.send(forward ? queues.next_activations : queues.previous_gradients,
                Filled{launch.action.microbatch, std::move(launch.output), depends_on});
  }
}

void StageSlots::pass_on(Launch& launch) {
  if (launch.output) send_output(launch, 0);
  const StageSetup::ChunkQueues& queues = queues_of(launch.action.chunk);
  for (auto& slot : launch.release) {
    const auto& owner = slot == launch.activation ? queues.activations
                        : slot == launch.gradient ? queues.gradients
                                                  : queues.targets;
    actor_.send(owner, Released{slot});
  }
}

void StageSlots::clear() {
  chunks_.clear();
  unsent_.clear();
  stale_.clear();
  fresh_.clear();
}

// The forward's inputs also stay until the verdict, because it may have to run again.
void StageSlots::enqueued_early(Launch& launch) {
  if (launch.output && !queues_of(launch.action.chunk).next_is_elsewhere) send_output(launch, step_);
  if (launch.output || !launch.release.empty()) unsent_.push_back(std::move(launch));
}

void StageSlots::confirm() {
  judged_ = true;
  for (ChunkSlots& slots : chunks_) slots.coming.provisional.clear();
  for (Launch& launch : std::exchange(unsent_, {})) pass_on(launch);
}

void StageSlots::take_back() {
  judged_ = true;
  refused_ = step_;
  for (Launch& launch : std::exchange(unsent_, {})) give_back(launch);
  for (int chunk = 0; chunk < setup_.plan->placement.chunks(); ++chunk) take_back_inputs(chunk);
  for (Arrived& input : std::exchange(fresh_, {})) take_input(std::move(input));
}

// Inputs that a forward still reads are released when it has completed.
void StageSlots::take_back_inputs(int chunk) {
  InputSlots& slots = slots_of(chunk).coming;
  const std::vector<Action> running = protocol_.running();
  const std::vector<bool> provisional = std::exchange(slots.provisional, {});
  for (std::size_t microbatch = 0; microbatch < provisional.size(); ++microbatch) {
    if (!provisional[microbatch]) continue;
    const Action reader{ActionKind::forward, static_cast<std::int16_t>(chunk), static_cast<std::int32_t>(microbatch)};
    protocol_.input_taken_back(chunk, static_cast<int>(microbatch));
    SlotHandle slot = std::exchange(slots.activations[microbatch], nullptr);
    const bool is_read = std::find(running.begin(), running.end(), reader) != running.end() &&
                         protocol_.step_of(reader) == schedules::StepOf::taken_back;
    if (is_read) {
      stale_.push_back({reader, std::move(slot)});
    } else {
      actor_.send(queues_of(chunk).activations, Released{std::move(slot)});
    }
  }
}

std::vector<StageSlots::Stale>::iterator StageSlots::find_stale(const Action& reader) {
  return std::find_if(stale_.begin(), stale_.end(), [&](const Stale& one) { return one.reader == reader; });
}

void StageSlots::end_stale(const Action& reader) {
  const auto found = find_stale(reader);
  if (found == stale_.end()) return;
  actor_.send(queues_of(reader.chunk).activations, Released{std::move(found->slot)});
  stale_.erase(found);
}

void StageSlots::give_back(Launch& launch) {
  ChunkSlots& slots = slots_of(launch.action.chunk);
  const auto microbatch = static_cast<std::size_t>(launch.action.microbatch);
  if (launch.output) {
    slots.activation_credits.push_front(std::move(launch.output));
    protocol_.credit_returned(InputKind::activation, launch.action.chunk);
  }
  if (const auto stale = find_stale(launch.action); stale != stale_.end()) {
    stale->slot = std::move(launch.activation);
  } else if (launch.activation) {
    slots.coming.activations[microbatch] = std::move(launch.activation);
  }
  if (launch.target) slots.coming.targets[microbatch] = std::move(launch.target);
}

}  // namespace pipetrain
