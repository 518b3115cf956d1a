// Lets a stage begin the coming step before the running one is over: see schedules/protocol/stage_protocol.hpp. Outputs
// that depend on the verdict are marked. When the verdict takes an output back, its holder releases it, and the slot's
// credit returns to its producer in the ordinary way. Outputs for other processes wait here for the verdict, so nothing
// that was sent is taken back.
#include <algorithm>
#include <utility>

#include "actors/engine/stage.hpp"

namespace pipetrain {

using schedules::Action;
using schedules::ActionKind;
using schedules::InputKind;

std::vector<SlotHandle>& StageActor::InputSlots::of(InputKind kind) {
  if (kind == InputKind::activation) return activations;
  return kind == InputKind::gradient ? gradients : targets;
}

void StageActor::begin_early() {
  if (std::exchange(begun_early_, true)) return;
  setup_.compute->begin_early(*coming_);
}

// The forward's inputs also stay until the verdict, because it may have to run again.
void StageActor::end_early_launch(Launch& launch) {
  const auto& queues = setup_.chunks[static_cast<std::size_t>(launch.action.chunk)];
  if (launch.output && !queues.next_is_elsewhere) send_output(launch, step_);
  if (launch.output || !launch.release.empty()) unsent_.push_back(std::move(launch));
}

void StageActor::verdict(const Verdict& verdict) {
  if (aborted_) return;
  log([&](auto& writer, auto now) { writer.verdict(verdict.apply, now); });
  setup_.compute->verdict(verdict);
  judged_ = true;
  if (protocol_.verdict(verdict.apply, verdict.confirms)) {
    take_back_early();
  } else {
    for (ChunkSlots& slots : chunks_) slots.coming.provisional.clear();
    for (Launch& launch : std::exchange(unsent_, {})) pass_on(launch);
  }
  pump();
}

void StageActor::take_back_early() {
  refused_ = step_;
  early_trace_.clear();
  for (Launch& launch : std::exchange(unsent_, {})) give_back(launch);
  for (Launched& one : launched_) one.taken_back = one.launch.early;
  for (int chunk = 0; chunk < setup_.plan->placement.chunks(); ++chunk) take_back_inputs(chunk);
  for (Arrived& input : std::exchange(fresh_, {})) take_input(std::move(input));
}

// Inputs that a forward still reads are released when it has completed.
void StageActor::take_back_inputs(int chunk) {
  InputSlots& slots = chunks_[static_cast<std::size_t>(chunk)].coming;
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
      send(setup_.chunks[static_cast<std::size_t>(chunk)].activations, Released{std::move(slot)});
    }
  }
}

void StageActor::end_stale(const Action& reader) {
  const auto found = std::find_if(stale_.begin(), stale_.end(), [&](const Stale& one) { return one.reader == reader; });
  if (found == stale_.end()) return;
  send(setup_.chunks[static_cast<std::size_t>(reader.chunk)].activations, Released{std::move(found->slot)});
  stale_.erase(found);
}

void StageActor::give_back(Launch& launch) {
  ChunkSlots& slots = chunks_[static_cast<std::size_t>(launch.action.chunk)];
  const auto microbatch = static_cast<std::size_t>(launch.action.microbatch);
  if (launch.output) {
    slots.activation_credits.push_front(std::move(launch.output));
    protocol_.credit_returned(InputKind::activation, launch.action.chunk);
  }
  const auto stale = std::find_if(stale_.begin(), stale_.end(), [&](const Stale& one) { return one.reader == launch.action; });
  if (stale != stale_.end()) {
    stale->slot = std::move(launch.activation);
  } else if (launch.activation) {
    slots.coming.activations[microbatch] = std::move(launch.activation);
  }
  if (launch.target) slots.coming.targets[microbatch] = std::move(launch.target);
}

}  // namespace pipetrain
