#include "actors/training/parallel_layout.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "actors/engine/remote/engine_channel.hpp"
#include "actors/training/fp8_support.hpp"
#include "actors/training/job_plan.hpp"
#include "actors/training/run_processes.hpp"
#include "actors/training/train_job.hpp"
#include "actors/training/transformer_compute.hpp"
#include "comm/transport_memory.hpp"
#include "core/error.hpp"
#include "model/head_size.hpp"
#include "schedules/recorded_order.hpp"
#include "schedules/validate.hpp"

namespace pipetrain {
namespace {

std::unique_ptr<Device> make_device(const TrainJob& job, int number) {
  return job.devices.kind == DeviceKind::cpu ? make_cpu_device(number, job.devices.threads) : make_cuda_device(number);
}

// An order is of one plan.
void check_replayed(const TrainJob& job) {
  if (!job.layout.replayed) return;
  const auto& recorded = *job.layout.replayed;
  const schedules::Plan plan = plan_of(job);
  if (recorded.replicas == job.batch.dp && recorded.plan.placement == plan.placement && recorded.plan.stages == plan.stages)
    return;
  throw Error(ErrorKind::input, {"order", "replay"},
              "the record is of " + recorded.plan.schedule + ", pp " + std::to_string(recorded.plan.placement.stages()) +
                  ", dp " + std::to_string(recorded.replicas) + ", " + std::to_string(recorded.plan.microbatches) +
                  " microbatches, or ends its steps otherwise; give the options of the recorded run");
}

void check_recompute_layers(const TrainJob& job) {
  const auto layers = job.numerics.recompute_layers;
  if (!layers || *layers <= job.config.layers) return;
  throw Error(ErrorKind::input, {"recompute-num-layers", std::to_string(*layers)},
              "the model has " + std::to_string(job.config.layers) + " layers; name as many or fewer of each stage's");
}

// Refuses a model that cannot be split or computed so before anything is opened.
std::shared_ptr<Transport> checked_transport(const TrainJob& job, const std::vector<std::vector<Block>>& parts,
                                             const std::shared_ptr<EngineChannel>& channel) {
  if (job.zero.divides_weights() && job.layout.order == schedules::Order::ready)
    throw Error(ErrorKind::input, {"zero", std::to_string(job.zero.stage)},
                "replicas gather weights in one order, the plan's, and the run's order is ready; use planned");
  check_replayed(job);
  layout_parameters(job.config, parts, 0, job.layout.tp);
  check_head_size(job.config, job.devices.kind, job.numerics.precision.compute);
  check_fp8(job);
  check_recompute_layers(job);
  return channel ? open_transport(*job.processes, mesh_of(job), job.devices.kind, channel) : nullptr;
}

World open_world(const TrainJob& job, int process, std::shared_ptr<Transport> transport) {
  const Mesh mesh = mesh_of(job);
  return World(
      mesh, process, [&](int rank) { return make_device(job, mesh.place(rank).device); }, std::move(transport));
}

// Where some stage's tensor-parallel ranks go on in another process.
std::vector<int> cuts_between_processes(const Mesh& mesh) {
  std::set<int> cuts{0, mesh.shape().tp};
  for (int rank = 1; rank < mesh.size(); ++rank) {
    const int tp_rank = mesh.at(rank).tp;
    if (tp_rank > 0 && mesh.place(rank).process != mesh.place(rank - 1).process) cuts.insert(tp_rank);
  }
  return {cuts.begin(), cuts.end()};
}

std::vector<RankPlace> places_of(const TrainJob& job, int ranks) {
  const ControlPlane* control = job.processes ? job.processes->control.get() : nullptr;
  std::vector<RankPlace> places = deal_ranks(ranks, control ? control->processes() : 1);
  if (job.devices.kind == DeviceKind::cpu || job.devices.gpus.empty()) return places;
  std::size_t next = 0;
  for (RankPlace& place : places) {
    if (control != nullptr && place.process != control->process()) continue;
    if (next < job.devices.gpus.size()) place.device = job.devices.gpus[next];
    ++next;
  }
  if (next != job.devices.gpus.size()) {
    throw Error(ErrorKind::input,
                std::to_string(job.devices.gpus.size()) + " GPUs are given for " + std::to_string(next) + " ranks");
  }
  return places;
}

}  // namespace

Mesh mesh_of(const TrainJob& job) {
  const MeshShape shape{.dp = static_cast<int>(job.batch.dp), .pp = job.layout.pp, .tp = job.layout.tp};
  return Mesh(shape, places_of(job, Mesh(shape).size()));
}

ParallelLayout::ParallelLayout(const TrainJob& job, const std::optional<PlannedProcesses>& planned)
    : ParallelLayout(job, nullptr, planned) {}

ParallelLayout::ParallelLayout(const TrainJob& job, const std::shared_ptr<EngineChannel>& channel)
    : ParallelLayout(job, channel, std::nullopt) {}

ParallelLayout::ParallelLayout(const TrainJob& job, const std::shared_ptr<EngineChannel>& channel,
                               const std::optional<PlannedProcesses>& planned)
    : plan_(plan_of(job)),
      needs_(validate(plan_, job.layout.order, TransformerCompute::slot_life())),
      parts_(partition_blocks(job.config, plan_.placement.virtual_stages(), job.dataset->sequence_length(), job.numerics)),
      world_(open_world(job, channel ? channel->process() : 0, checked_transport(job, parts_, channel))),
      planned_(planned) {
  if (planned_) planned_places_ = deal_ranks(mesh().size(), planned_->processes);
  cuts_ = cuts_between_processes(mesh());
  make_groups(job.config.tied_embeddings);
}

void ParallelLayout::connect(const std::vector<int>& members, std::shared_ptr<Group> RankGroups::*which, GroupUse use) {
  const std::size_t bytes = group_bytes(members);
  for (auto& [rank, group] : world_.group(members, use)) {
    groups_[rank].*which = std::move(group);
    group_bytes_[rank] += bytes;
  }
}

bool ParallelLayout::is_far(int rank, int other) const {
  if (!planned_) return !world_.runs(other);
  return planned_places_[static_cast<std::size_t>(rank)].process != planned_places_[static_cast<std::size_t>(other)].process;
}

std::size_t ParallelLayout::group_bytes(const std::vector<int>& members) const {
  const auto far = [&](int rank) { return is_far(members.front(), rank); };
  if (std::none_of(members.begin(), members.end(), far)) return 0;
  const int ranks = static_cast<int>(members.size());
  if (planned_) return group_memory(planned_->transport, ranks);
  return transport() ? transport()->group_memory(ranks) : 0;
}

void ParallelLayout::make_groups(bool tied) {
  for (const auto& members : mesh().groups({Axis::tp})) connect(members, &RankGroups::tensor);
  for (const auto& members : mesh().groups({Axis::dp})) connect(members, &RankGroups::data, GroupUse::beside_compute);
  if (!tied) return;
  const auto places = tied_sum_places(plan_.placement);
  for (const auto& pipeline : mesh().groups({Axis::pp})) {
    std::vector<int> members;
    for (const auto place : places) members.push_back(pipeline[static_cast<std::size_t>(place.stage)]);
    connect(members, &RankGroups::tied);
  }
}

std::vector<StageId> ParallelLayout::stages() const {
  std::vector<StageId> stages;
  for (const int begin : world_.ranks()) {
    const MeshCoordinate at = mesh().at(begin);
    const PartRank rank = part_rank(at.tp);
    if (rank.number == 0) stages.push_back({at.dp, at.pp, rank.part});
  }
  return stages;
}

std::vector<int> ParallelLayout::ranks_of(StageId id) const {
  const auto part = static_cast<std::size_t>(id.part);
  std::vector<int> ranks;
  for (int tp_rank = cuts_[part]; tp_rank < cuts_[part + 1]; ++tp_rank)
    ranks.push_back(mesh().rank({.dp = id.replica, .pp = id.stage, .tp = tp_rank}));
  return ranks;
}

ParallelLayout::PartRank ParallelLayout::part_rank(int tp_rank) const {
  const auto next = std::upper_bound(cuts_.begin(), cuts_.end(), tp_rank);
  return {static_cast<int>(next - cuts_.begin()) - 1, tp_rank - *std::prev(next)};
}

std::vector<std::vector<Block>> ParallelLayout::chunks_of(int stage) const {
  std::vector<std::vector<Block>> chunks;
  for (int chunk = 0; chunk < plan_.placement.chunks(); ++chunk) {
    chunks.push_back(parts_[static_cast<std::size_t>(plan_.placement.virtual_stage(stage, chunk))]);
  }
  return chunks;
}

void ParallelLayout::add_links(RankSetup& setup) const {
  const auto& placement = plan_.placement;
  for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
    const int at = placement.virtual_stage(setup.id.pp, chunk);
    for (const int next : {at - 1, at + 1}) {
      if (next < 0 || next >= placement.virtual_stages()) continue;
      const schedules::StageChunk receiver = placement.at(next);
      MeshCoordinate neighbour = setup.id;
      neighbour.pp = receiver.stage;
      const int to = mesh().rank(neighbour);
      const bool far = is_far(setup.rank, to);
      const bool mirrors = planned_ && far && keeps_mirrors(planned_->transport);
      const LinkKind kind = setup.links[to] = mirrors ? LinkKind::same_memory : world_.link(setup.rank, to);
      if (!far || kind != LinkKind::same_memory) continue;
      const auto& needs = needs_[static_cast<std::size_t>(receiver.stage)].chunks[static_cast<std::size_t>(receiver.chunk)];
      setup.mirrors += next > at ? needs.activation_slots : needs.gradient_slots;
    }
  }
}

RankSetup ParallelLayout::rank_setup(const TrainJob& job, int rank) const {
  RankSetup setup;
  setup.id = mesh().at(rank);
  setup.rank = rank;
  setup.lane = part_rank(setup.id.tp).number;
  setup.device = &world_.device(rank);
  if (const auto groups = groups_.find(rank); groups != groups_.end()) setup.groups = groups->second;
  if (const auto bytes = group_bytes_.find(rank); bytes != group_bytes_.end()) setup.group_bytes = bytes->second;
  setup.config = job.config;
  setup.chunks = chunks_of(setup.id.pp);
  setup.shape = {job.batch.microbatch, job.dataset->sequence_length()};
  setup.microbatches = static_cast<int>(job.batch.microbatches);
  setup.isolates_documents = job.dataset->isolates_documents();
  setup.sequence_parallel = job.layout.sequence_parallel;
  setup.numerics = job.numerics;
  add_links(setup);
  setup.same_order = job.layout.order == schedules::Order::planned || setup.chunks.size() == 1;
  setup.seed = job.samples.seed;
  setup.optimizer = job.optimizer;
  setup.zero = job.zero;
  setup.offload = job.offload;
  setup.replicas = mesh().shape().dp;
  if (job.layout.order == schedules::Order::planned) setup.actions = plan_.stages[static_cast<std::size_t>(setup.id.pp)];
  setup.needs = needs_[static_cast<std::size_t>(setup.id.pp)];
  setup.wrap_ops = job.wrap_ops;
  setup.saves = job.saves;
  if (job.fault && job.fault->rank == rank) setup.fault = job.fault;
  return setup;
}

std::vector<RankSetup> ParallelLayout::rank_setups(const TrainJob& job, StageId id) const {
  std::vector<RankSetup> setups;
  for (const int rank : ranks_of(id)) setups.push_back(rank_setup(job, rank));
  return setups;
}

std::vector<Device*> ParallelLayout::stage_devices(StageId id) const {
  std::vector<Device*> devices;
  for (const int rank : ranks_of(id)) {
    if (world_.runs(rank)) devices.push_back(&world_.device(rank));
  }
  return devices;
}

Mesh ParallelLayout::stage_mesh() const {
  std::vector<RankPlace> places;
  for (int rank = 0; rank < mesh().size(); ++rank) {
    if (part_rank(mesh().at(rank).tp).number == 0) places.push_back(mesh().place(rank));
  }
  const MeshShape& shape = mesh().shape();
  return Mesh({.dp = shape.dp, .pp = shape.pp, .tp = static_cast<int>(cuts_.size()) - 1}, std::move(places));
}

}  // namespace pipetrain
