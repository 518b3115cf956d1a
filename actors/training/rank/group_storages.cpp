#include "actors/training/rank/group_storages.hpp"

#include <string>
#include <utility>

#include "actors/training/rank/rank_memory.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

StorageSetup storage_setup(const RankSetup& setup, const GroupLayout& group, const TensorParallel& tp) {
  const bool experts = group.group == ParameterGroup::expert;
  const int replicas = experts ? setup.expert_replicas : setup.replicas;
  const int replica = experts ? setup.expert_replica : setup.replica;
  // With a single microbatch, gradients are complete at once.
  const bool leave_summed = setup.zero.divides_grads() && replicas > 1 && setup.microbatches == 1 && setup.same_order;
  return {.layout = group.layout,
          .rank = setup.id,
          .device = setup.device,
          .replicas = experts ? setup.groups.expert_data : setup.groups.data,
          .copy = replica,
          .places = {.zero = setup.zero,
                     .place = place_among(setup.zero, setup.optimizer, replicas, replica),
                     .precision = setup.numerics.precision,
                     .actions = setup.actions,
                     .offload = setup.offload,
                     .grads_leave_summed = leave_summed,
                     .previews = setup.post_validation},
          .tp = tp,
          .prefetch = setup.zero.prefetch,
          .optimizer = setup.optimizer,
          .compression = {setup.compression.gradients,
                          replicas,
                          replica,
                          setup.layout.tp,
                          setup.optimizer.beta1,
                          setup.optimizer.beta2,
                          setup.optimizer.eps,
                          setup.compression.hosts,
                          {setup.groups.between_hosts, setup.groups.within_host}},
          .weights_code = setup.compression.weights,
          .saves = setup.saves,
          .kept_copies = setup.kept_copies};
}

FrozenWeights::Setup frozen_setup(const RankSetup& setup, const ParameterLayout& layout) {
  return {.layout = layout,
          .rank = setup.id,
          .type = setup.numerics.precision.compute,
          .saves = setup.saves,
          .is_saved = !setup.config.adapter.exists()};
}

QuantisedWeights::Setup quantised_setup(const RankSetup& setup, const ParameterLayout& layout) {
  return {.layout = layout,
          .rank = setup.id,
          .form = setup.config.base_form,
          .type = setup.numerics.precision.compute,
          .blocks_in_use = runs_in_turns(setup) ? 2 : 1};
}

MemoryUse group_memory(const RankSetup& setup, const GroupLayout& group) {
  if (is_trained(group.group)) return storage_memory(storage_setup(setup, group, {}));
  if (group.group == ParameterGroup::quantised) return QuantisedWeights::memory(quantised_setup(setup, group.layout));
  return FrozenWeights::memory(frozen_setup(setup, group.layout));
}

}  // namespace

GroupStorages::GroupStorages(const RankSetup& setup, const ParameterLayout& layout, const TensorParallel& tp, Ops& ops)
    : setup_(setup), layout_(layout), tp_(tp), groups_(group_layouts(layout)) {
  std::vector<GroupedParameters::Member> members;
  for (const GroupLayout& group : groups_) members.push_back({group, add_group(group, ops)});
  if (members.size() > 1) {
    grouped_.emplace(layout, members);
    parameters_ = &*grouped_;
  } else {
    parameters_ = &members.front().weights;
  }
}

ParameterStore& GroupStorages::add_group(const GroupLayout& group, Ops& ops) {
  if (is_trained(group.group)) return add_trained(group, ops).storage.weights();
  if (group.group == ParameterGroup::quantised) {
    quantised_ = std::make_unique<QuantisedWeights>(quantised_setup(setup_, group.layout), ops);
    return *quantised_;
  }
  frozen_ = std::make_unique<FrozenWeights>(frozen_setup(setup_, group.layout), ops.stream());
  return frozen_->weights();
}

StorageSetup GroupStorages::trained_setup(const GroupLayout& group) {
  StorageSetup setup = storage_setup(setup_, group, tp_);
  if (!setup.replicas) return setup;
  if (!transfer_) transfer_ = setup.device->make_stream("sums over replicas");
  setup.transfer = transfer_;
  return setup;
}

TrainedGroup& GroupStorages::add_trained(const GroupLayout& group, Ops& ops) {
  trained_.push_back(std::make_unique<TrainedGroup>(group, trained_setup(group), ops));
  TrainedGroup& added = *trained_.back();
  // The first of a stage's ranks that keep the same state counts it.
  const StatePlaces& places = added.storage.places();
  const bool first = setup_.id.cp == 0 && (setup_.id.ep == 0 || group.group == ParameterGroup::expert);
  if (first || places.is_sharded()) added.counted = places.counted(setup_.id.tp);
  return added;
}

std::vector<GroupedParameters::Member> GroupStorages::untrained() {
  std::vector<GroupedParameters::Member> members;
  for (const GroupLayout& group : groups_) {
    if (group.group == ParameterGroup::frozen) members.push_back({group, frozen_->weights()});
    if (group.group == ParameterGroup::quantised) members.push_back({group, *quantised_});
  }
  return members;
}

GradientPlaces GroupStorages::gradient_places() const {
  if (groups_.size() == 1 && !trained_.empty()) return trained_.front()->storage.gradients().places();
  std::vector<GroupGradients> groups;
  for (const auto& group : trained_) groups.push_back({group->of.group, group->storage.gradients().places()});
  return grouped_places(layout_, groups);
}

void GroupStorages::load(const InitialState& state) {
  if (frozen_) frozen_->load(*state.weights);
  if (quantised_) quantised_->load(*state.weights);
  for (const auto& group : trained_) {
    group->storage.load(weights_state, *state.weights);
    for (const auto& [name, source] : state.states) group->storage.load(name, *source);
    group->storage.loaded();
  }
}

GroupStorages::Holder GroupStorages::holder(const StatePart& part) const {
  const auto holds = [&](const HeldPart& held, std::size_t index) {
    return held.parameter == index && held.begin <= part.begin && part.begin + part.elements <= held.end;
  };
  for (const auto& group : trained_) {
    const auto index = group->of.index_of(part.parameter);
    if (!index) continue;
    for (const HeldPart& held : group->storage.places().held()) {
      if (holds(held, *index)) return {group->of.group, group.get(), held};
    }
  }
  for (const GroupLayout& group : groups_) {
    const auto index = group.index_of(part.parameter);
    if (!index || is_trained(group.group) || part.state != weights_state) continue;
    const HeldPart whole{*index, 0, static_cast<std::size_t>(group.layout.parameters[*index].local.elements())};
    if (holds(whole, *index)) return {group.group, nullptr, whole};
  }
  throw Error(ErrorKind::internal,
              to_string(setup_.id) + " holds no such part of its parameter " + std::to_string(part.parameter));
}

void GroupStorages::read(const StatePart& part, float* out) {
  const Holder found = holder(part);
  const Region elements{part.begin, part.begin + part.elements};
  if (found.group == ParameterGroup::frozen) return frozen_->read(found.held.parameter, elements, out);
  if (found.group == ParameterGroup::quantised) return quantised_->read(found.held.parameter, elements, out);
  found.trained->storage.read(part.state, found.held, elements, out);
}

std::vector<HeldState> GroupStorages::saved() const {
  std::vector<HeldState> saved;
  const auto add = [&](std::vector<HeldState> pieces, const GroupLayout& group) {
    for (HeldState& piece : pieces) {
      piece.parameter = group.parameters[piece.parameter];
      saved.push_back(std::move(piece));
    }
  };
  for (const auto& group : trained_) add(group->storage.saved(), group->of);
  for (const GroupLayout& group : groups_) {
    if (group.group == ParameterGroup::frozen) add(frozen_->saved(), group);
  }
  return saved;
}

std::vector<HeldState> GroupStorages::held() const {
  std::vector<HeldState> held;
  for (const auto& group : trained_) {
    for (HeldState& piece : group->storage.held()) {
      piece.parameter = group->of.parameters[piece.parameter];
      held.push_back(std::move(piece));
    }
  }
  return held;
}

void GroupStorages::restore(const InitialState& state, const float* values, StagedTransfers* transfers) {
  if (frozen_) frozen_->load(*state.weights);
  if (quantised_) quantised_->load(*state.weights);
  for (const auto& group : trained_) values = group->storage.restore(values, transfers);
}

Tensor GroupStorages::settled() { return trained_.empty() ? frozen_->arena() : trained_.front()->storage.settled(); }

MemoryUse GroupStorages::memory(const RankSetup& setup, const ParameterLayout& layout) {
  MemoryUse use;
  for (const GroupLayout& group : group_layouts(layout)) use += group_memory(setup, group);
  return use;
}

}  // namespace pipetrain
