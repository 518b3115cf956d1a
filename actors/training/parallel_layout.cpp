#include "actors/training/parallel_layout.hpp"

#include "actors/training/edge_copy.hpp"
#include "actors/training/job_plan.hpp"
#include "actors/training/trainer.hpp"
#include "comm/groups.hpp"
#include "model/head_size.hpp"

namespace pipetrain {
namespace {

std::unique_ptr<Device> make_device(const TrainJob& job, std::size_t rank) {
  if (job.device == DeviceKind::cpu) return make_cpu_device(static_cast<int>(rank), job.threads);
  return make_cuda_device(job.devices.empty() ? static_cast<int>(rank) : job.devices[rank]);
}

}  // namespace

ParallelLayout::ParallelLayout(const TrainJob& job)
    : dp_(static_cast<int>(job.batch.dp)),
      pp_(job.pp),
      tp_(job.tp),
      plan_(plan_of(job)),
      parts_(partition_blocks(job.config, plan_.placement.virtual_stages(), job.dataset->sequence_length(), job.recompute)) {
  // These throw for a model that cannot be split or computed so, before anything is built.
  layout_parameters(job.config, parts_, 0, tp_);
  check_head_size(job.config, job.device, job.precision);
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(dp_ * pp_ * tp_); ++rank)
    devices_.push_back(make_device(job, rank));
  groups_.resize(devices_.size());
  make_groups(job.config.tied_embeddings);
}

std::size_t ParallelLayout::rank_index(StageId id, int tp_rank) const {
  return static_cast<std::size_t>((id.replica * pp_ + id.stage) * tp_ + tp_rank);
}

void ParallelLayout::make_groups(bool tied) {
  // Gives the members, in rank order, a group of their own, unless one is alone.
  const auto connect = [this](const std::vector<std::size_t>& members, std::shared_ptr<Group> RankGroups::*which,
                              GroupUse use = GroupUse::alone) {
    if (members.size() < 2) return;
    std::vector<Device*> devices;
    for (const auto member : members) devices.push_back(devices_[member].get());
    auto groups = pipetrain::make_groups(devices, use);
    for (std::size_t i = 0; i < members.size(); ++i) groups_[members[i]].*which = std::move(groups[i]);
  };
  const int first = plan_.placement.at(0).stage, last = plan_.placement.at(plan_.placement.virtual_stages() - 1).stage;
  for (int replica = 0; replica < dp_; ++replica) {
    for (int stage = 0; stage < pp_; ++stage) {
      std::vector<std::size_t> members;
      for (int rank = 0; rank < tp_; ++rank) members.push_back(rank_index({replica, stage}, rank));
      connect(members, &RankGroups::tensor);
    }
    for (int rank = 0; tied && first != last && rank < tp_; ++rank) {
      connect({rank_index({replica, first}, rank), rank_index({replica, last}, rank)}, &RankGroups::tied);
    }
  }
  for (int stage = 0; stage < pp_; ++stage) {
    for (int rank = 0; rank < tp_; ++rank) {
      std::vector<std::size_t> members;
      for (int replica = 0; replica < dp_; ++replica) members.push_back(rank_index({replica, stage}, rank));
      connect(members, &RankGroups::data, GroupUse::beside_compute);
    }
  }
}

bool ParallelLayout::sends_far(StageId id, int tp_rank) const {
  const auto& placement = plan_.placement;
  const DeviceId own = devices_[rank_index(id, tp_rank)]->id();
  for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
    const int at = placement.virtual_stage(id.stage, chunk);
    for (const int next : {at - 1, at + 1}) {
      if (next < 0 || next >= placement.virtual_stages()) continue;
      const auto& device = *devices_[rank_index({id.replica, placement.at(next).stage}, tp_rank)];
      if (EdgeCopy::needed(own, device.id())) return true;
    }
  }
  return false;
}

std::vector<RankSetup> ParallelLayout::rank_setups(const TrainJob& job, StageId id, const schedules::StageNeeds& needs) const {
  std::vector<RankSetup> setups;
  for (int rank = 0; rank < tp_; ++rank) {
    const auto index = rank_index(id, rank);
    RankSetup setup;
    setup.id = {id.replica, id.stage, rank};
    setup.device = devices_[index].get();
    setup.groups = groups_[index];
    setup.config = job.config;
    for (int chunk = 0; chunk < plan_.placement.chunks(); ++chunk) {
      setup.chunks.push_back(parts_[static_cast<std::size_t>(plan_.placement.virtual_stage(id.stage, chunk))]);
    }
    setup.shape = {job.batch.microbatch, job.dataset->sequence_length()};
    setup.microbatches = static_cast<int>(job.batch.microbatches);
    setup.sequence_parallel = job.sequence_parallel;
    setup.precision = job.precision;
    setup.recompute = job.recompute;
    setup.deterministic = job.deterministic;
    setup.sends_far = sends_far(id, rank);
    setup.same_order = job.order == schedules::Order::planned || setup.chunks.size() == 1;
    setup.adamw = job.adamw;
    setup.needs = needs;
    setup.wrap_ops = job.wrap_ops;
    if (job.fault && job.fault->rank == static_cast<int>(index)) setup.fault = job.fault;
    setups.push_back(std::move(setup));
  }
  return setups;
}

std::vector<Device*> ParallelLayout::stage_devices(StageId id) const {
  std::vector<Device*> devices;
  for (int rank = 0; rank < tp_; ++rank) devices.push_back(devices_[rank_index(id, rank)].get());
  return devices;
}

}  // namespace pipetrain
