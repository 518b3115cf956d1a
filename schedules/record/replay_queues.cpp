#include "schedules/record/replay_queues.hpp"

namespace pipetrain::schedules {

namespace {

constexpr std::size_t queue_input_kinds = 3;

}  // namespace

std::vector<int> QueueState::microbatches(SlotHolder place) const {
  std::vector<int> found;
  for (int microbatch = 0; microbatch < std::ssize(holders); ++microbatch)
    if (holders[static_cast<std::size_t>(microbatch)] == place) found.push_back(microbatch);
  return found;
}

ReplayQueues::ReplayQueues(const RecordedRun& run)
    : virtual_stages_(static_cast<std::size_t>(run.plan.placement.virtual_stages())),
      customs_(run.plan.custom.size()),
      signals_(static_cast<std::size_t>(run.replicas * run.parts) * customs_) {
  for (int pipeline = 0; pipeline < run.replicas * run.parts; ++pipeline)
    for (int v = 0; v < run.plan.placement.virtual_stages(); ++v) {
      const StageChunk at = run.plan.placement.at(v);
      const ChunkNeeds& needs = run.needs[static_cast<std::size_t>(at.stage)].chunks[static_cast<std::size_t>(at.chunk)];
      const auto add = [&](InputKind kind, int slots, bool fed) {
        places_.push_back(slots > 0 ? static_cast<int>(queues_.size()) : -1);
        if (slots == 0) return;
        QueueState& queue = queues_.emplace_back();
        queue.replica = pipeline / run.parts;
        queue.part = pipeline % run.parts;
        queue.virtual_stage = v;
        queue.kind = kind;
        queue.fed = fed;
        (fed ? queue.free : queue.returning) = slots;
        queue.holders.resize(static_cast<std::size_t>(run.plan.microbatches));
      };
      add(InputKind::activation, needs.activation_slots, v == 0);
      add(InputKind::gradient, needs.gradient_slots, false);
      add(InputKind::target, needs.target_slots, true);
    }
}

QueueState* ReplayQueues::find(int pipeline, int virtual_stage, InputKind kind) {
  const std::size_t place =
      queue_input_kinds * (static_cast<std::size_t>(pipeline) * virtual_stages_ + static_cast<std::size_t>(virtual_stage));
  const int index = places_[place + static_cast<std::size_t>(kind)];
  return index < 0 ? nullptr : &queues_[static_cast<std::size_t>(index)];
}

}  // namespace pipetrain::schedules
