#include "schedules/builders/builders.hpp"
#include "schedules/builders/stage_list.hpp"

namespace pipetrain::schedules {

// Lamy-Poirier 2023, "Breadth-First Pipeline Parallelism": every chunk runs all microbatches before the next chunk.
Plan build_looped_bfs(const ScheduleShape& shape) {
  Plan plan{"looped-bfs", Placement::looping(shape.stages, shape.chunks), shape.microbatches, {}, ReadyRule::forward_first};
  StageList list(shape.chunks, shape.microbatches);
  for (int chunk = 0; chunk < shape.chunks; ++chunk)
    while (list.forward(chunk)) {
    }
  for (int chunk = shape.chunks - 1; chunk >= 0; --chunk)
    while (list.backward(chunk)) {
    }
  plan.stages.assign(static_cast<std::size_t>(shape.stages), list.take());
  return plan;
}

}  // namespace pipetrain::schedules
