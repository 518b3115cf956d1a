#include "actors/training/rank/parallel_layout.hpp"

#include <utility>

#include "actors/engine/remote/engine_channel.hpp"
#include "actors/ranks/run_processes.hpp"
#include "actors/training/job/braid_check.hpp"
#include "actors/training/job/context_support.hpp"
#include "actors/training/job/fp8_support.hpp"
#include "actors/training/job/job_plan.hpp"
#include "actors/training/job/optimizer_check.hpp"
#include "actors/training/job/post_validation.hpp"
#include "actors/training/job/slice_check.hpp"
#include "actors/training/job/train_job.hpp"
#include "actors/training/rank/transformer_compute.hpp"
#include "core/error.hpp"
#include "model/config/head_size.hpp"
#include "schedules/plan/braids.hpp"
#include "schedules/plan/validate.hpp"
#include "schedules/record/recorded_order.hpp"

namespace pipetrain {
namespace {

// A recorded order belongs to one plan.
void check_replayed(const TrainJob& job, const schedules::Plan& plan) {
  if (!job.layout.replayed) return;
  const auto& recorded = *job.layout.replayed;
  if (recorded.replicas == job.batch.dp && recorded.plan.placement == plan.placement && recorded.plan.stages == plan.stages)
    return;
  throw Error(ErrorKind::input, {"order", "replay"},
              "the record is of " + recorded.plan.schedule + ", pp " + std::to_string(recorded.plan.placement.stages()) +
                  ", dp " + std::to_string(recorded.replicas) + ", " +
                  std::to_string(recorded.plan.microbatches / recorded.plan.slices) +
                  " microbatches, or ends its steps otherwise; give the options of the recorded run");
}

void check_recompute_layers(const TrainJob& job) {
  const auto layers = job.numerics.recompute_layers;
  if (!layers || *layers <= job.config.layers) return;
  throw Error(ErrorKind::input, {"recompute-num-layers", std::to_string(*layers)},
              "the model has " + std::to_string(job.config.layers) + " layers; name as many or fewer of each stage's");
}

void check_loss_chunks(const TrainJob& job) {
  if (job.numerics.loss_chunks == 1 || !job.config.classifies()) return;
  throw Error(ErrorKind::input, {"loss-chunks", std::to_string(job.numerics.loss_chunks)},
              "chunks keep the logits of a vocabulary small, and this model has " + std::to_string(job.config.outputs()) +
                  " classes; leave it out");
}

void check_offloaded_parameters(const TrainJob& job) {
  if (!job.offload.parameters) return;
  if (job.layout.order == schedules::Order::ready)
    throw Error(ErrorKind::input, {"offload", to_string(job.offload)},
                "weights are fetched in the plan's order, and the run's order is ready; use planned");
}

// Ranks of one stage that run in several processes do the same actions without asking each other.
void check_divided_stages(const TrainJob& job, const Mesh& ranks) {
  const Mesh parts = StageParts(ranks).stage_mesh();
  check_post_validation(job, parts);
  if (parts.shape().part > 1 && job.layout.order != schedules::Order::planned)
    throw Error(
        ErrorKind::input, {"order", "ready"},
        "the ranks of a stage run in several processes, which must not choose apart; give each process whole stages, or "
        "use planned");
}

// Refuses a model that cannot be split or computed in this way on these ranks.
void check_layout(const TrainJob& job, const schedules::Plan& plan, const std::vector<std::vector<Block>>& parts,
                  const Mesh& ranks) {
  if (job.zero.divides_weights() && job.layout.order == schedules::Order::ready)
    throw Error(ErrorKind::input, {"zero", std::to_string(job.zero.stage)},
                "replicas gather weights in one order, the plan's, and the run's order is ready; use planned");
  check_offloaded_parameters(job);
  check_replayed(job, plan);
  layout_parameters(job.config, parts, 0, job.layout.tp);
  check_head_size(job.config, job.devices.kind, job.numerics.precision.compute);
  check_fp8(job);
  check_granularity(*make_optimizer(job.optimizer), job);
  check_recompute_layers(job);
  check_loss_chunks(job);
  check_slices(job);
  check_braids(job, plan, ranks);
  check_context_parallel(job);
  check_divided_stages(job, ranks);
}

// Checks everything before anything is opened.
World checked_world(const TrainJob& job, const schedules::Plan& plan, const std::vector<std::vector<Block>>& parts,
                    const std::shared_ptr<EngineChannel>& channel, const std::optional<PlannedProcesses>& planned) {
  const Mesh mesh = mesh_of(job);
  check_layout(job, plan, parts, planned_mesh(mesh, planned));
  return open_world(mesh, job.devices, job.processes.get(), channel);
}

}  // namespace

Mesh mesh_of(const TrainJob& job) {
  const MeshShape shape{.dp = static_cast<int>(job.batch.dp), .pp = job.layout.pp, .cp = job.layout.cp, .tp = job.layout.tp};
  return dealt_mesh(shape, job.devices, job.processes.get());
}

ParallelLayout::ParallelLayout(const TrainJob& job, const std::shared_ptr<EngineChannel>& channel,
                               const std::optional<PlannedProcesses>& planned)
    : plan_(job.plan ? job.plan : build_plan(job)),
      needs_(validate(plan(), job.layout.order, TransformerCompute::slot_life())),
      parts_(parts_of(job, plan().placement)),
      world_(checked_world(job, plan(), parts_, channel, planned)),
      reach_(world_, planned),
      cuts_(mesh()) {
  make_groups(job.config.tied_embeddings);
}

void ParallelLayout::connect(const std::vector<int>& members, std::shared_ptr<Group> RankGroups::*which, GroupUse use) {
  const std::size_t bytes = reach_.group_bytes(members);
  for (auto& [rank, group] : world_.group(members, use)) {
    groups_[rank].*which = std::move(group);
    group_bytes_[rank] += bytes;
  }
}

void ParallelLayout::make_groups(bool tied) {
  // A braid's collectives run beside the computing of its other action.
  const GroupUse use = has_braids(plan()) ? GroupUse::beside_compute : GroupUse::alone;
  for (const auto& members : mesh().groups({Axis::tp})) connect(members, &RankGroups::tensor, use);
  for (const auto& members : mesh().groups({Axis::cp})) connect(members, &RankGroups::context, GroupUse::beside_compute);
  for (const auto& members : mesh().groups({Axis::dp, Axis::cp})) connect(members, &RankGroups::data, GroupUse::beside_compute);
  if (!tied) return;
  const auto places = tied_sum_places(plan().placement);
  for (const auto& pipeline : mesh().groups({Axis::pp})) {
    std::vector<int> members;
    for (const auto place : places) members.push_back(pipeline[static_cast<std::size_t>(place.stage)]);
    connect(members, &RankGroups::tied);
  }
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
  setup.sequence_parallel = job.layout.sequence_parallel;
  setup.numerics = job.numerics;
  add_links(setup);
  setup.same_order = job.layout.order == schedules::Order::planned || setup.chunks.size() == 1;
  setup.seed = job.samples.seed;
  setup.optimizer = job.optimizer;
  setup.previews = job.post_validation;
  setup.zero = job.zero;
  setup.offload = job.offload;
  setup.replicas = weight_copies(mesh().shape());
  setup.replica = weight_copy(setup.id, mesh().shape());
  if (job.layout.order == schedules::Order::planned) setup.actions = plan_->stages[static_cast<std::size_t>(setup.id.pp)];
  setup.needs = needs_[static_cast<std::size_t>(setup.id.pp)];
  setup.wrap_ops = job.wrap_ops;
  setup.saves = job.saves;
  if (job.fault && job.fault->rank == rank) setup.fault = job.fault;
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
    if (world_.runs(rank)) receivers.push_back({&world_.device(rank), {mesh().at(rank).cp, mesh().shape().cp}});
  }
  return receivers;
}

}  // namespace pipetrain
