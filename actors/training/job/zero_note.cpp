#include "actors/training/job/zero_note.hpp"

#include <fmt/format.h>

#include "actors/training/job/job_plan.hpp"
#include "actors/training/job/train_job.hpp"
#include "actors/training/state/gradient_pool.hpp"
#include "core/counted.hpp"
#include "model/parameters/parameter_groups.hpp"

namespace pipetrain {
namespace {

bool shares_memory(const TrainJob& job) {
  const schedules::Plan& plan = *job.plan;
  const auto& placement = plan.placement;
  const auto parts = parts_of(job, placement);
  for (int stage = 0; stage < placement.stages(); ++stage) {
    std::vector<std::vector<Block>> chunks;
    for (int chunk = 0; chunk < placement.chunks(); ++chunk)
      chunks.push_back(parts[static_cast<std::size_t>(placement.virtual_stage(stage, chunk))]);
    const int replicas = static_cast<int>(job.batch.dp) * job.layout.cp;
    const auto& actions = plan.stages[static_cast<std::size_t>(stage)];
    for (const GroupLayout& group : group_layouts(layout_parameters(job.config, chunks, 0, job.layout.tp))) {
      if (!is_trained(group.group)) continue;
      const auto units = shard_units(group.layout, replicas);
      if (!pool_gradients(group.layout, units, replicas, actions).is_empty()) return true;
    }
  }
  return false;
}

}  // namespace

std::optional<std::string> undivided_gradients_note(const TrainJob& job) {
  if (!job.zero.divides_grads() || job.batch.dp * job.layout.cp == 1) return {};
  if (job.layout.order == schedules::Order::planned && shares_memory(job)) return {};
  return fmt::format(
      "with {} a step in schedule {}, every replica's gradients live to the end of the step: dividing them saves "
      "no memory here; it does with one microbatch, or in looped-bfs (docs/memory.md)",
      counted(job.batch.microbatches, "microbatch", "es"), job.layout.schedule);
}

}  // namespace pipetrain
