#include "actors/training/rank/parallel_layout.hpp"

#include <utility>

#include "actors/engine/remote/engine_channel.hpp"
#include "actors/training/copies/agreement.hpp"
#include "actors/training/copies/buddy_order.hpp"
#include "actors/training/job/combinations.hpp"
#include "actors/training/job/job_check.hpp"
#include "actors/training/job/job_plan.hpp"
#include "actors/training/job/train_job.hpp"
#include "actors/training/rank/transformer_compute.hpp"
#include "core/error.hpp"
#include "schedules/plan/braids.hpp"
#include "schedules/plan/validate.hpp"

namespace pipetrain {
namespace {

// Refuses what does not work before it searches for a plan.
std::shared_ptr<const schedules::Plan> kept_or_built_plan(const TrainJob& job) {
  if (job.plan) return job.plan;
  check_combinations(features_of(job));
  return build_plan(job);
}

// Checks everything before anything is opened.
World checked_world(const TrainJob& job, const schedules::Plan& plan, const std::vector<std::vector<Block>>& parts,
                    const std::shared_ptr<EngineChannel>& channel, const std::optional<PlannedProcesses>& planned) {
  const Mesh mesh = mesh_of(job);
  check_job(job, plan, parts, planned_mesh(mesh, planned));
  return open_world(mesh, job.devices, job.processes.get(), channel);
}

}  // namespace

Mesh mesh_of(const TrainJob& job) {
  if (job.layout.ep < 1 || job.batch.dp % job.layout.ep != 0)
    throw Error(
        ErrorKind::input, {"ep", std::to_string(job.layout.ep)},
        "the experts are divided over replicas, and dp is " + std::to_string(job.batch.dp) + "; use a number that divides dp");
  return dealt_mesh(job.mesh_shape(), job.devices, job.processes.get());
}

ParallelLayout::ParallelLayout(const TrainJob& job, const std::shared_ptr<EngineChannel>& channel,
                               const std::optional<PlannedProcesses>& planned)
    : plan_(kept_or_built_plan(job)),
      needs_(validate(plan(), job.layout.order, TransformerCompute::slot_life())),
      parts_(parts_of(job, plan().placement)),
      world_(checked_world(job, plan(), parts_, channel, planned)),
      reach_(world_, planned),
      cuts_(mesh()),
      passes_copies_(job.keeps_copies && !shares_copies(job) &&
                     loses_states_with_process(planned_mesh(mesh(), planned), divides_states(job))) {
  make_groups(job.config.shares_table(), job.compression.hosts);
  if (passes_copies_ && channel) make_buddy_group(channel->control());
}

void ParallelLayout::connect(const std::vector<int>& members, std::shared_ptr<Group> RankGroups::*which, GroupUse use) {
  const std::size_t bytes = reach_.group_bytes(members);
  for (auto& [rank, group] : world_.group(members, use)) {
    groups_[rank].*which = std::move(group);
    group_bytes_[rank] += bytes;
  }
}

void ParallelLayout::make_host_groups(const std::vector<int>& copies, int hosts) {
  const auto count = copies.size() / static_cast<std::size_t>(hosts);  // of a host
  for (std::size_t first = 0; first < copies.size(); first += count) {
    const auto begin = copies.begin() + static_cast<std::ptrdiff_t>(first);
    connect({begin, begin + static_cast<std::ptrdiff_t>(count)}, &RankGroups::within_host, GroupUse::overlaps_compute);
  }
  for (std::size_t at = 0; at < count; ++at) {
    std::vector<int> members;
    for (std::size_t copy = at; copy < copies.size(); copy += count) members.push_back(copies[copy]);
    connect(members, &RankGroups::between_hosts, GroupUse::overlaps_compute);
  }
}

void ParallelLayout::make_groups(bool tied, int hosts) {
  // The collectives of one action of a braid run while the other action computes.
  const GroupUse use = has_braids(plan()) ? GroupUse::overlaps_compute : GroupUse::alone;
  for (const auto& members : mesh().groups({Axis::tp})) connect(members, &RankGroups::tensor, use);
  for (const auto& members : mesh().groups({Axis::cp})) connect(members, &RankGroups::context, GroupUse::overlaps_compute);
  for (const auto& members : mesh().groups({Axis::dp, Axis::cp, Axis::ep}))
    connect(members, &RankGroups::data, GroupUse::overlaps_compute);
  if (hosts > 0)
    for (const auto& members : mesh().groups({Axis::dp, Axis::cp, Axis::ep})) make_host_groups(members, hosts);
  if (mesh().shape().ep > 1) {
    for (const auto& members : mesh().groups({Axis::ep})) connect(members, &RankGroups::experts, use);
    for (const auto& members : mesh().groups({Axis::dp, Axis::cp}))
      connect(members, &RankGroups::expert_data, GroupUse::overlaps_compute);
  }
  if (!tied) return;
  const auto places = tied_sum_places(plan().placement);
  for (const auto& pipeline : mesh().groups({Axis::pp})) {
    std::vector<int> members;
    for (const auto place : places) members.push_back(pipeline[static_cast<std::size_t>(place.stage)]);
    connect(members, &RankGroups::tied);
  }
}

void ParallelLayout::make_buddy_group(const ControlPlane& control) {
  std::vector<std::string> hosts;
  for (int process = 0; process < control.processes(); ++process) hosts.push_back(control.info(process).host);
  buddy_order_ = pipetrain::buddy_order(mesh(), hosts);
  std::vector<int> members;
  for (const int process : buddy_order_) members.push_back(mesh().ranks_of(process).front());
  auto handles = world_.group(members, GroupUse::overlaps_compute);
  if (!handles.empty()) buddies_ = std::move(handles.begin()->second);
}

std::vector<std::vector<Block>> ParallelLayout::chunks_of(int stage) const {
  std::vector<std::vector<Block>> chunks;
  for (int chunk = 0; chunk < plan_->placement.chunks(); ++chunk) {
    chunks.push_back(parts_[static_cast<std::size_t>(plan_->placement.virtual_stage(stage, chunk))]);
  }
  return chunks;
}

void ParallelLayout::add_links(RankSetup& setup) const {
  const auto& placement = plan_->placement;
  for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
    const int at = placement.virtual_stage(setup.id.pp, chunk);
    for (const int next : {at - 1, at + 1}) {
      if (next < 0 || next >= placement.virtual_stages()) continue;
      const schedules::StageChunk receiver = placement.at(next);
      const auto& needs = needs_[static_cast<std::size_t>(receiver.stage)].chunks[static_cast<std::size_t>(receiver.chunk)];
      reach_.add_link(setup, receiver.stage, next > at ? needs.activation_slots : needs.gradient_slots);
    }
  }
}

RankSetup ParallelLayout::rank_setup(const TrainJob& job, int rank) const {
  RankSetup setup;
  static_cast<JobSettings&>(setup) = job;
  if (job.fault && job.fault->rank != rank) setup.fault.reset();
  static_cast<MeshRank&>(setup) = reach_.rank(rank, part_rank(mesh().at(rank)).number);
  if (const auto groups = groups_.find(rank); groups != groups_.end()) setup.groups = groups->second;
  if (const auto bytes = group_bytes_.find(rank); bytes != group_bytes_.end()) setup.group_bytes = bytes->second;
  setup.config = job.config;
  setup.chunks = chunks_of(setup.id.pp);
  setup.context = {setup.id.cp, mesh().shape().cp};
  setup.sequence = job.dataset->sequence_length() / setup.context.size;
  setup.shape = {job.batch.microbatch, RowSplit(setup.sequence, plan_->slices).count(0)};
  setup.microbatches = plan_->microbatches;
  setup.slices = plan_->slices;
  setup.braids = job.layout.order == schedules::Order::planned && has_braids(plan());
  setup.isolates_documents = job.dataset->isolates_documents();
  add_links(setup);
  setup.same_order = job.layout.order == schedules::Order::planned || setup.chunks.size() == 1;
  setup.replicas = weight_copies(mesh().shape());
  setup.replica = weight_copy(setup.id, mesh().shape());
  setup.experts = {setup.id.ep, mesh().shape().ep};
  setup.expert_replicas = expert_copies(mesh().shape());
  setup.expert_replica = expert_copy(setup.id, mesh().shape());
  setup.data_replica = data_replica(setup.id, mesh().shape());
  setup.expert_biases = job.config.router_rules.bias_rate > 0 || !job.initial.expert_biases.empty();
  if (job.layout.order == schedules::Order::planned) setup.actions = plan_->stages[static_cast<std::size_t>(setup.id.pp)];
  setup.needs = needs_[static_cast<std::size_t>(setup.id.pp)];
  setup.wrap_ops = job.wrap_ops;
  setup.saves = job.saves;
  setup.kept = job.kept;
  if (job.keeps_copies) setup.kept_copies = passes_copies_ ? copies_with_buddy : copies_alone;
  return setup;
}

std::vector<RankSetup> ParallelLayout::rank_setups(const TrainJob& job, StageId id) const {
  std::vector<RankSetup> setups;
  for (const int rank : cuts_.ranks_of(id)) setups.push_back(rank_setup(job, rank));
  return setups;
}

std::vector<TokenSource::Receiver> ParallelLayout::receivers(StageId id) const {
  std::vector<TokenSource::Receiver> receivers;
  for (const int rank : cuts_.ranks_of(id)) {
    const MeshCoordinate at = mesh().at(rank);
    if (world_.runs(rank))
      receivers.push_back({&world_.device(rank), {at.cp, mesh().shape().cp}, data_replica(at, mesh().shape())});
  }
  return receivers;
}

}  // namespace pipetrain
