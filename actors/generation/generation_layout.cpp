#include "actors/generation/generation_layout.hpp"

#include <algorithm>
#include <utility>

#include "actors/engine/remote/engine_channel.hpp"
#include "core/error.hpp"
#include "model/config/attention_limits.hpp"
#include "schedules/plan/forward_only.hpp"

namespace pipetrain {

std::vector<std::vector<Block>> generation_blocks(const GenerationJob& job) {
  auto blocks = partition_blocks(job.config, job.pp, job.positions);
  layout_parameters(job.config, blocks, 0, job.tp);
  for (const GenerationAdapter& adapter : job.adapters) layout_parameters(adapter.config, blocks, 0, job.tp);
  check_attention(job.config, job.devices.kind, job.precision.compute);
  constexpr std::int64_t most = 256;  // the limit of Ops::cached_attention's kernels
  if (job.devices.kind == DeviceKind::cuda && job.config.head_dim > most)
    throw Error(ErrorKind::input, {"device", "cuda"},
                "the model's heads are larger than " + std::to_string(most) + "; use the CPU");
  return blocks;
}

GenerationLayout::GenerationLayout(const GenerationJob& job, const std::shared_ptr<EngineChannel>& channel,
                                   const std::optional<PlannedProcesses>& planned)
    : plan_(schedules::forward_only_plan(job.pp, job.sequences)),
      needs_(schedules::forward_only_needs(plan_)),
      blocks_(generation_blocks(job)),
      world_(open_world(dealt_mesh({.dp = 1, .pp = job.pp, .tp = job.tp}, job.devices, channel ? job.processes.get() : nullptr),
                        job.devices, job.processes.get(), channel)),
      reach_(world_, planned),
      parts_(world_.mesh()) {
  for (const auto& members : world_.mesh().groups({Axis::tp})) {
    const std::size_t bytes = reach_.group_bytes(members);
    for (auto& [rank, group] : world_.group(members)) {
      tensor_groups_[rank] = std::move(group);
      group_bytes_[rank] = bytes;
    }
  }
}

std::vector<Device*> GenerationLayout::stage_devices(StageId id) const {
  std::vector<Device*> devices;
  for (const int rank : parts_.ranks_of(id)) {
    if (world_.runs(rank)) devices.push_back(&world_.device(rank));
  }
  return devices;
}

GenerationRankSetup GenerationLayout::rank_setup(const GenerationJob& job, int rank) const {
  GenerationRankSetup setup;
  static_cast<MeshRank&>(setup) = reach_.rank(rank, parts_.part_rank(world_.mesh().at(rank)).number);
  if (const auto group = tensor_groups_.find(rank); group != tensor_groups_.end()) setup.tensor = group->second;
  if (const auto bytes = group_bytes_.find(rank); bytes != group_bytes_.end()) setup.group_bytes = bytes->second;
  const auto stage = static_cast<std::size_t>(setup.id.pp);
  setup.model = {.config = job.config,
                 .adapters = {},
                 .blocks = blocks_[stage],
                 .caches = job.sequences,
                 .positions = job.positions,
                 .run = std::min(longest_run, job.positions),
                 .precision = job.precision};
  if (stage + 1 < needs_.size()) reach_.add_link(setup, setup.id.pp + 1, needs_[stage + 1].chunks.front().activation_slots);
  setup.needs = needs_[stage].chunks.front();
  setup.weights = job.weights;
  for (const GenerationAdapter& adapter : job.adapters) {
    setup.model.adapters.push_back(adapter.config);
    setup.adapter_weights.push_back(adapter.weights);
  }
  return setup;
}

std::vector<GenerationRankSetup> GenerationLayout::rank_setups(const GenerationJob& job, StageId id) const {
  std::vector<GenerationRankSetup> setups;
  for (const int rank : parts_.ranks_of(id)) setups.push_back(rank_setup(job, rank));
  return setups;
}

}  // namespace pipetrain
