#include "schedules/simulate/simulated_moves.hpp"

#include <algorithm>

namespace pipetrain::schedules {

SimulatedMoves::SimulatedMoves(const StageNeeds& needs, int microbatches) {
  const std::vector<double> never(static_cast<std::size_t>(microbatches));
  for (const ChunkNeeds& of : needs.chunks) {
    Chunk& chunk = chunks_.emplace_back(Chunk{{}, never, never});
    chunk.places.resize(of.peak_activations);
    for (int i = 0; i < of.peak_activations; ++i) chunk.places.give_back(0);
  }
}

double SimulatedMoves::take_place(int index) { return active() ? chunk(index).places.take() : 0; }

void SimulatedMoves::give_place_back(int index, double time) {
  if (active()) chunk(index).places.give_back(time);
}

double SimulatedMoves::back_at(const Action& action) const {
  if (!active()) return 0;
  return chunks_[static_cast<std::size_t>(action.chunk)].back_at[static_cast<std::size_t>(action.microbatch)];
}

Span SimulatedMoves::launch(const Action& action, double from, double duration) {
  Chunk& of = chunk(action.chunk);
  const auto microbatch = static_cast<std::size_t>(action.microbatch);
  const bool out = action.kind == ActionKind::offload;
  Span span{action, WaitedFor::nothing, from, 0};
  if (!out) span.start = std::max({from, of.out_at[microbatch], of.places.take()});
  double& busy = out ? out_free_at_ : in_free_at_;
  if (busy > span.start) span.start = busy, span.waited_for = WaitedFor::memory;
  span.end = busy = span.start + duration;
  (out ? of.out_at : of.back_at)[microbatch] = span.end;
  if (out) of.places.give_back(span.end);
  return span;
}

}  // namespace pipetrain::schedules
