#include "actors/training/parallel_layout.hpp"

#include <utility>

#include "actors/engine/remote/engine_channel.hpp"
#include "actors/training/job_plan.hpp"
#include "actors/training/run_processes.hpp"
#include "actors/training/train_job.hpp"
#include "actors/training/transformer_compute.hpp"
#include "core/error.hpp"
#include "model/head_size.hpp"
#include "schedules/validate.hpp"

namespace pipetrain {
namespace {

std::unique_ptr<Device> make_device(const TrainJob& job, int number) {
  return job.devices.kind == DeviceKind::cpu ? make_cpu_device(number, job.devices.threads) : make_cuda_device(number);
}

// Refuses a model that cannot be split or computed so before anything is opened.
std::shared_ptr<Transport> checked_transport(const TrainJob& job, const std::vector<std::vector<Block>>& parts,
                                             const std::shared_ptr<EngineChannel>& channel) {
  layout_parameters(job.config, parts, 0, job.layout.tp);
  check_head_size(job.config, job.devices.kind, job.numerics.precision.compute);
  return channel ? open_transport(*job.processes, mesh_of(job), job.devices.kind, channel) : nullptr;
}

World open_world(const TrainJob& job, int process, std::shared_ptr<Transport> transport) {
  const Mesh mesh = mesh_of(job);
  return World(
      mesh, process, [&](int rank) { return make_device(job, mesh.place(rank).device); }, std::move(transport));
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

ParallelLayout::ParallelLayout(const TrainJob& job, const std::shared_ptr<EngineChannel>& channel)
    : plan_(plan_of(job)),
      needs_(validate(plan_, job.layout.order, TransformerCompute::slot_life())),
      parts_(partition_blocks(job.config, plan_.placement.virtual_stages(), job.dataset->sequence_length(), job.numerics)),
      transport_(checked_transport(job, parts_, channel)),
      world_(open_world(job, channel ? channel->process() : 0, transport_)) {
  make_groups(job.config.tied_embeddings);
}

void ParallelLayout::connect(const std::vector<int>& members, std::shared_ptr<Group> RankGroups::*which, GroupUse use) {
  for (auto& [rank, group] : world_.group(members, use)) groups_[rank].*which = std::move(group);
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
  for (const auto& members : mesh().groups({Axis::tp})) {
    const MeshCoordinate first = mesh().at(members.front());
    if (world_.runs(members.front())) stages.push_back({first.dp, first.pp});
  }
  return stages;
}

std::vector<int> ParallelLayout::ranks_of(StageId id) const { return mesh().group(mesh().rank(coordinate(id)), {Axis::tp}); }

std::vector<std::vector<Block>> ParallelLayout::chunks_of(int stage) const {
  std::vector<std::vector<Block>> chunks;
  for (int chunk = 0; chunk < plan_.placement.chunks(); ++chunk) {
    chunks.push_back(parts_[static_cast<std::size_t>(plan_.placement.virtual_stage(stage, chunk))]);
  }
  return chunks;
}

LinkKinds ParallelLayout::links_of(int rank) const {
  const auto& placement = plan_.placement;
  const MeshCoordinate own = mesh().at(rank);
  LinkKinds links;
  for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
    const int at = placement.virtual_stage(own.pp, chunk);
    for (const int next : {at - 1, at + 1}) {
      if (next < 0 || next >= placement.virtual_stages()) continue;
      MeshCoordinate neighbour = own;
      neighbour.pp = placement.at(next).stage;
      const int to = mesh().rank(neighbour);
      links[to] = world_.link(rank, to);
    }
  }
  return links;
}

RankSetup ParallelLayout::rank_setup(const TrainJob& job, int rank) const {
  RankSetup setup;
  setup.id = mesh().at(rank);
  setup.rank = rank;
  setup.device = &world_.device(rank);
  if (const auto groups = groups_.find(rank); groups != groups_.end()) setup.groups = groups->second;
  setup.config = job.config;
  setup.chunks = chunks_of(setup.id.pp);
  setup.shape = {job.batch.microbatch, job.dataset->sequence_length()};
  setup.microbatches = static_cast<int>(job.batch.microbatches);
  setup.sequence_parallel = job.layout.sequence_parallel;
  setup.numerics = job.numerics;
  setup.links = links_of(rank);
  setup.same_order = job.layout.order == schedules::Order::planned || setup.chunks.size() == 1;
  setup.optimizer = job.optimizer;
  setup.needs = needs_[static_cast<std::size_t>(setup.id.pp)];
  setup.wrap_ops = job.wrap_ops;
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
  for (const auto& members : mesh().groups({Axis::tp})) {
    const RankPlace first = mesh().place(members.front()), last = mesh().place(members.back());
    if (first.process != last.process) {
      throw Error(ErrorKind::unavailable, "the tensor-parallel ranks of stage " +
                                              std::to_string(mesh().at(members.front()).pp) + " would run in processes " +
                                              std::to_string(first.process) + " and " + std::to_string(last.process) +
                                              ", which is not built yet; use fewer processes");
    }
    places.push_back(first);
  }
  return Mesh({.dp = mesh().shape().dp, .pp = mesh().shape().pp}, std::move(places));
}

}  // namespace pipetrain
