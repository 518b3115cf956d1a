#include "actors/training/parallel_layout.hpp"

#include "actors/training/edge_copy.hpp"
#include "actors/training/job_plan.hpp"
#include "actors/training/trainer.hpp"
#include "model/head_size.hpp"

namespace pipetrain {
namespace {

std::unique_ptr<Device> make_device(const TrainJob& job, std::size_t rank) {
  if (job.device == DeviceKind::cpu) return make_cpu_device(static_cast<int>(rank), job.threads);
  return make_cuda_device(job.devices.empty() ? static_cast<int>(rank) : job.devices[rank]);
}

}  // namespace

Mesh mesh_of(const TrainJob& job) { return Mesh({.dp = static_cast<int>(job.batch.dp), .pp = job.pp, .tp = job.tp}); }

ParallelLayout::ParallelLayout(const TrainJob& job)
    : mesh_(mesh_of(job)),
      plan_(plan_of(job)),
      parts_(partition_blocks(job.config, plan_.placement.virtual_stages(), job.dataset->sequence_length(), job.recompute)) {
  // These throw for a model that cannot be split or computed so, before anything is built.
  layout_parameters(job.config, parts_, 0, mesh_.shape().tp);
  check_head_size(job.config, job.device, job.precision);
  for (int rank = 0; rank < mesh_.size(); ++rank) devices_.push_back(make_device(job, static_cast<std::size_t>(rank)));
  groups_.resize(devices_.size());
  make_groups(job.config.tied_embeddings);
}

void ParallelLayout::connect(const std::vector<int>& members, std::shared_ptr<Group> RankGroups::*which, GroupUse use) {
  if (members.size() < 2) return;
  std::vector<Device*> devices;
  for (const int member : members) devices.push_back(devices_[static_cast<std::size_t>(member)].get());
  auto groups = pipetrain::make_groups(devices, use);
  for (std::size_t i = 0; i < members.size(); ++i) groups_[static_cast<std::size_t>(members[i])].*which = std::move(groups[i]);
}

void ParallelLayout::make_groups(bool tied) {
  for (const auto& members : mesh_.groups({Axis::tp})) connect(members, &RankGroups::tensor);
  for (const auto& members : mesh_.groups({Axis::dp})) connect(members, &RankGroups::data, GroupUse::beside_compute);
  const auto& placement = plan_.placement;
  const auto first = static_cast<std::size_t>(placement.at(0).stage),
             last = static_cast<std::size_t>(placement.at(placement.virtual_stages() - 1).stage);
  if (!tied || first == last) return;
  for (const auto& pipeline : mesh_.groups({Axis::pp})) connect({pipeline[first], pipeline[last]}, &RankGroups::tied);
}

std::vector<StageId> ParallelLayout::stages() const {
  std::vector<StageId> stages;
  for (const auto& members : mesh_.groups({Axis::tp})) {
    const MeshCoordinate first = mesh_.at(members.front());
    stages.push_back({first.dp, first.pp});
  }
  return stages;
}

std::vector<MeshCoordinate> ParallelLayout::ranks_of(StageId id) const {
  std::vector<MeshCoordinate> ranks;
  for (const int rank : mesh_.group(mesh_.rank(coordinate(id)), {Axis::tp})) ranks.push_back(mesh_.at(rank));
  return ranks;
}

bool ParallelLayout::sends_far(const MeshCoordinate& rank) const {
  const auto& placement = plan_.placement;
  for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
    const int at = placement.virtual_stage(rank.pp, chunk);
    for (const int next : {at - 1, at + 1}) {
      if (next < 0 || next >= placement.virtual_stages()) continue;
      MeshCoordinate neighbour = rank;
      neighbour.pp = placement.at(next).stage;
      if (EdgeCopy::needed(device(rank).id(), device(neighbour).id())) return true;
    }
  }
  return false;
}

RankSetup ParallelLayout::rank_setup(const TrainJob& job, const MeshCoordinate& rank,
                                     const schedules::StageNeeds& needs) const {
  RankSetup setup;
  setup.id = rank;
  setup.device = devices_[index(rank)].get();
  setup.groups = groups_[index(rank)];
  setup.config = job.config;
  for (int chunk = 0; chunk < plan_.placement.chunks(); ++chunk) {
    setup.chunks.push_back(parts_[static_cast<std::size_t>(plan_.placement.virtual_stage(rank.pp, chunk))]);
  }
  setup.shape = {job.batch.microbatch, job.dataset->sequence_length()};
  setup.microbatches = static_cast<int>(job.batch.microbatches);
  setup.sequence_parallel = job.sequence_parallel;
  setup.precision = job.precision;
  setup.recompute = job.recompute;
  setup.deterministic = job.deterministic;
  setup.sends_far = sends_far(rank);
  setup.same_order = job.order == schedules::Order::planned || setup.chunks.size() == 1;
  setup.adamw = job.adamw;
  setup.needs = needs;
  setup.wrap_ops = job.wrap_ops;
  if (job.fault && job.fault->rank == mesh_.rank(rank)) setup.fault = job.fault;
  return setup;
}

std::vector<RankSetup> ParallelLayout::rank_setups(const TrainJob& job, StageId id, const schedules::StageNeeds& needs) const {
  std::vector<RankSetup> setups;
  for (const MeshCoordinate& rank : ranks_of(id)) setups.push_back(rank_setup(job, rank, needs));
  return setups;
}

std::vector<Device*> ParallelLayout::stage_devices(StageId id) const {
  std::vector<Device*> devices;
  for (const MeshCoordinate& rank : ranks_of(id)) devices.push_back(devices_[index(rank)].get());
  return devices;
}

}  // namespace pipetrain
