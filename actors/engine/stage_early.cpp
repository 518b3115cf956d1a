// A stage that begins the coming step before the running one is over: see schedules/stage_protocol.hpp. What its early forwards
// read and fill stays here until the verdict, so that nobody else has to hear of what is taken back.
#include <utility>

#include "actors/engine/stage.hpp"

namespace pipetrain {

using schedules::InputKind;

std::vector<SlotHandle>& StageActor::InputSlots::of(InputKind kind) {
  if (kind == InputKind::activation) return activations;
  return kind == InputKind::gradient ? gradients : targets;
}

void StageActor::begin_early() {
  if (std::exchange(begun_early_, true)) return;
  setup_.compute->begin_early(*coming_);
}

void StageActor::verdict(const Verdict& verdict) {
  log([&](auto& writer, auto now) { writer.verdict(verdict.apply, now); });
  setup_.compute->verdict(verdict);
  if (protocol_.verdict(verdict.apply, verdict.confirms)) {
    take_back_early();
  } else {
    for (Launch& launch : std::exchange(unsent_, {})) pass_on(launch);
  }
  pump();
}

void StageActor::take_back_early() {
  for (Launch& launch : std::exchange(unsent_, {})) give_back(launch);
  for (Launched& one : launched_) one.taken_back = one.launch.early;
  early_trace_.clear();
}

void StageActor::give_back(Launch& launch) {
  ChunkSlots& slots = chunks_[static_cast<std::size_t>(launch.action.chunk)];
  const auto microbatch = static_cast<std::size_t>(launch.action.microbatch);
  if (launch.output) slots.activation_credits.push_front(std::move(launch.output));
  if (launch.activation) slots.coming.activations[microbatch] = std::move(launch.activation);
  if (launch.target) slots.coming.targets[microbatch] = std::move(launch.target);
}

}  // namespace pipetrain
