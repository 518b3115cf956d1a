#include "actors/generation/generation_layout.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "schedules/forward_only.hpp"

namespace pipetrain {
namespace {

std::vector<std::vector<Block>> checked_blocks(const GenerationJob& job) {
  auto blocks = partition_blocks(job.config, job.pp, job.positions);
  layout_parameters(job.config, blocks, 0, job.tp);
  constexpr std::int64_t most = 256;  // see Ops::cached_attention's kernels
  if (job.devices.kind == DeviceKind::cuda && job.config.head_dim > most)
    throw Error(ErrorKind::input, {"device", "cuda"},
                "the model's heads are larger than " + std::to_string(most) + "; use the CPU");
  return blocks;
}

std::unique_ptr<Device> make_device(const GenerationJob& job, int number) {
  return job.devices.kind == DeviceKind::cpu ? make_cpu_device(number, job.devices.threads) : make_cuda_device(number);
}

World open_world(const GenerationJob& job) {
  const MeshShape shape{.dp = 1, .pp = job.pp, .tp = job.tp};
  std::vector<RankPlace> places = deal_ranks(Mesh(shape).size(), 1);
  for (std::size_t rank = 0; rank < std::min(places.size(), job.devices.gpus.size()); ++rank)
    places[rank].device = job.devices.gpus[rank];
  const Mesh mesh(shape, places);
  return World(mesh, 0, [&](int rank) { return make_device(job, mesh.place(rank).device); });
}

}  // namespace

GenerationLayout::GenerationLayout(const GenerationJob& job)
    : plan_(schedules::forward_only_plan(job.pp, job.sequences)),
      needs_(schedules::forward_only_needs(plan_)),
      blocks_(checked_blocks(job)),
      world_(open_world(job)) {
  for (const auto& members : world_.mesh().groups({Axis::tp}))
    for (auto& [rank, group] : world_.group(members)) tensor_groups_[rank] = std::move(group);
}

std::vector<Device*> GenerationLayout::stage_devices(int stage) const {
  std::vector<Device*> devices;
  for (int tp = 0; tp < world_.mesh().shape().tp; ++tp)
    devices.push_back(&world_.device(world_.mesh().rank({.dp = 0, .pp = stage, .tp = tp})));
  return devices;
}

std::vector<GenerationRankSetup> GenerationLayout::rank_setups(const GenerationJob& job, int stage,
                                                               const SharedRuns& runs) const {
  std::vector<GenerationRankSetup> setups;
  for (int tp = 0; tp < job.tp; ++tp) {
    GenerationRankSetup setup;
    setup.id = {.dp = 0, .pp = stage, .tp = tp};
    setup.rank = world_.mesh().rank(setup.id);
    setup.device = &world_.device(setup.rank);
    if (const auto group = tensor_groups_.find(setup.rank); group != tensor_groups_.end()) setup.tensor = group->second;
    setup.model = {.config = job.config,
                   .blocks = blocks_[static_cast<std::size_t>(stage)],
                   .caches = job.sequences,
                   .positions = job.positions,
                   .run = std::min(longest_run, job.positions),
                   .precision = job.precision};
    if (stage + 1 < job.pp) {
      const int next = world_.mesh().rank({.dp = 0, .pp = stage + 1, .tp = tp});
      setup.links[next] = world_.link(setup.rank, next);
    }
    setup.needs = needs_[static_cast<std::size_t>(stage)].chunks.front();
    setup.weights = job.weights;
    setup.runs = runs;
    setups.push_back(std::move(setup));
  }
  return setups;
}

}  // namespace pipetrain
