#include "actors/training/rank/rank_state.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "model/parameters/arena_views.hpp"

namespace pipetrain {
namespace {

StorageSetup storage_setup(const RankSetup& setup, const ParameterLayout& layout) {
  // One microbatch's gradients are complete as they come.
  const bool leave_summed = setup.zero.divides_grads() && setup.replicas > 1 && setup.microbatches == 1 && setup.same_order;
  return {.layout = layout,
          .rank = setup.id,
          .device = setup.device,
          .replicas = setup.groups.data,
          .places = {.zero = setup.zero,
                     .place = place_among(setup.zero, setup.replicas, setup.replica),
                     .precision = setup.numerics.precision,
                     .actions = setup.actions,
                     .offload = setup.offload,
                     .grads_leave_summed = leave_summed,
                     .previews = setup.previews},
          .prefetch = setup.zero.prefetch,
          .optimizer = setup.optimizer,
          .saves = setup.saves};
}

FrozenWeights::Setup frozen_setup(const RankSetup& setup, const ParameterLayout& layout) {
  return {.layout = layout, .rank = setup.id, .type = setup.numerics.precision.compute, .saves = setup.saves};
}

// Whether this memory lies in the arena.
bool lies_in(const Tensor& memory, const Tensor& arena) {
  const auto* const begin = static_cast<const char*>(arena.data);
  const auto* const at = static_cast<const char*>(memory.data);
  return at >= begin && at < begin + arena.bytes();
}

}  // namespace

RankState::RankState(const RankSetup& setup, const ParameterLayout& layout, const TensorParallel& tp, Ops& ops)
    : setup_(setup), layout_(layout), tp_(tp), ops_(ops), groups_(group_layouts(layout)) {
  std::vector<GroupedParameters::Member> members;
  for (const GroupLayout& group : groups_) {
    if (is_trained(group.group)) {
      members.push_back({group, add_trained(group).storage.weights()});
    } else {
      frozen_ = std::make_unique<FrozenWeights>(frozen_setup(setup, group.layout), ops.stream());
      members.push_back({group, frozen_->weights()});
    }
  }
  if (members.size() > 1) {
    grouped_.emplace(layout, members);
    parameters_ = &*grouped_;
  } else {
    parameters_ = &members.front().weights;
  }
  if (setup.saves) snapshot();
}

RankState::TrainedGroup& RankState::add_trained(const GroupLayout& group) {
  trained_.push_back(std::make_unique<TrainedGroup>(group, storage_setup(setup_, group.layout), ops_));
  TrainedGroup& added = *trained_.back();
  // Where ranks share sequences and keep the same, the first part's rank counts.
  const StatePlaces& places = added.storage.places();
  if (setup_.id.cp == 0 || places.is_sharded()) added.counted = places.counted(setup_.id.tp);
  return added;
}

GradientPlaces RankState::gradient_places() const {
  if (groups_.size() == 1 && !frozen_) return trained_.front()->storage.gradients().places();
  std::vector<GroupGradients> groups;
  for (const auto& group : trained_) groups.push_back({group->of.group, group->storage.gradients().places()});
  return grouped_places(layout_, groups);
}

bool RankState::any_gradients(bool (GradientStorage::*has)() const) const {
  return std::any_of(trained_.begin(), trained_.end(),
                     [has](const auto& group) { return (group->storage.gradients().*has)(); });
}

void RankState::open_gradients(std::size_t block) {
  for (const auto& group : trained_) {
    if (group->storage.gradients().opens()) group->storage.gradients().open(block);
  }
}

void RankState::close_gradients(std::size_t block, bool last) {
  for (const auto& group : trained_) group->storage.gradients().close(block, last);
}

void RankState::load(const InitialState& state) {
  if (frozen_) frozen_->load(*state.weights);
  for (const auto& group : trained_) {
    group->storage.load(weights_state, *state.weights);
    for (const auto& [name, source] : state.states) group->storage.load(name, *source);
    group->storage.loaded();
  }
  applied_steps_ = state.applied_steps;
}

RankState::Holder RankState::holder(const StatePart& part) const {
  const auto holds = [&](const HeldPart& held, std::size_t index) {
    return held.parameter == index && held.begin <= part.begin && part.begin + part.elements <= held.end;
  };
  for (const auto& group : trained_) {
    const auto index = group->of.index_of(part.parameter);
    if (!index) continue;
    for (const HeldPart& held : group->storage.places().held()) {
      if (holds(held, *index)) return {group.get(), held};
    }
  }
  for (const GroupLayout& group : groups_) {
    const auto index = group.index_of(part.parameter);
    if (!index || is_trained(group.group) || part.state != weights_state) continue;
    const HeldPart whole{*index, 0, static_cast<std::size_t>(group.layout.parameters[*index].local.elements())};
    if (holds(whole, *index)) return {nullptr, whole};
  }
  throw Error(ErrorKind::internal,
              to_string(setup_.id) + " holds no such part of its parameter " + std::to_string(part.parameter));
}

void RankState::read(const StatePart& part, float* out) {
  const Holder found = holder(part);
  const Region elements{part.begin, part.begin + part.elements};
  if (found.group == nullptr) return frozen_->read(found.held.parameter, elements, out);
  found.group->storage.read(part.state, found.held, elements, out);
}

StateSnapshot& RankState::snapshot() {
  if (snapshot_) return *snapshot_;
  std::vector<HeldState> saved;
  const auto add = [&](std::vector<HeldState> pieces, const GroupLayout& group) {
    for (HeldState& piece : pieces) {
      piece.parameter = group.parameters[piece.parameter];
      saved.push_back(std::move(piece));
    }
  };
  for (const auto& group : trained_) add(group->storage.saved(), group->of);
  for (const GroupLayout& group : groups_) {
    if (!is_trained(group.group)) add(frozen_->saved(), group);
  }
  return snapshot_.emplace(*setup_.device, to_string(setup_.id), std::move(saved));
}

void RankState::begin_step(schedules::StepKind kind) {
  for (const auto& group : trained_) group->storage.begin_step(kind);
}

void RankState::start_reduction(const Tensor& grads) {
  for (const auto& group : trained_) {
    if (lies_in(grads, group->storage.gradients().arena())) return group->storage.gradients().start_reduction(grads);
  }
}

void RankState::reduce(int chunk) {
  for (const auto& group : trained_) group->storage.gradients().reduce(chunk);
}

void RankState::sum_replicated(int chunk) {
  for (const auto& group : trained_) {
    const ParameterStorage& storage = group->storage;
    sum_replicated_grads(storage.gradients().part(storage.places().replicated_grads(chunk)), tp_, ops_);
  }
}

// The sums of the table that is tied: all of them, or this rank's run.
TiedGrads RankState::tied_sums(const TrainedGroup& group) const {
  const StatePlaces& places = group.storage.places();
  const GradientStorage& gradients = group.storage.gradients();
  if (!places.is_sharded() && !places.pools()) return tied_grads(group.of.layout, setup_.config, gradients.arena());
  TiedGrads tied;
  if (!setup_.config.tied_embeddings) return tied;
  const auto own = [&](TensorRole role) { return gradients.part(places.own_sums(role)); };
  if (find_tensor(group.of.layout, TensorRole::token_table)) tied.embedding = own(TensorRole::token_table);
  if (find_tensor(group.of.layout, TensorRole::output_weight)) tied.head = own(TensorRole::output_weight);
  return tied;
}

// Both ends of a tie are in one group.
void RankState::sum_tied() {
  for (const auto& group : trained_) {
    const TiedGrads tied = tied_sums(*group);
    if (!setup_.groups.tied) {
      sum_tied_grads(tied, ops_);
    } else if (tied.has_embedding() || tied.has_head()) {
      const Tensor& own = tied.has_embedding() ? tied.embedding : tied.head;
      if (own.elements() > 0) setup_.groups.tied->all_reduce(ops_.stream(), own, Reduction::sum);
    }
  }
}

std::size_t RankState::sum_count() const {
  std::size_t count = 0;
  for (const auto& group : trained_) count += count_sums(group->counted);
  return count;
}

void RankState::square_sums(const Tensor& sums) {
  std::size_t next = 0;
  for (const auto& group : trained_) {
    const std::size_t count = count_sums(group->counted);
    group->storage.gradients().square_sums(group->counted, span(sums, next, count));
    next += count;
  }
}

void RankState::preview(float lr, float grad_scale) {
  for (const auto& group : trained_) group->storage.preview({lr, applied_steps_ + 1, grad_scale});
}

void RankState::restore() {
  for (const auto& group : trained_) group->storage.restore();
}

void RankState::step(float lr, float grad_scale) {
  ++applied_steps_;
  if (snapshot_) snapshot_->protect(ops_.stream());
  for (const auto& group : trained_) group->storage.step({lr, applied_steps_, grad_scale});
}

void RankState::begin_rehearsal() {
  for (const auto& group : trained_) group->storage.begin_rehearsal();
}

void RankState::end_rehearsal(const Tensor& sums) {
  std::size_t next = 0;
  for (const auto& group : trained_) {
    const std::size_t count = count_sums(group->counted);
    group->storage.end_rehearsal(group->counted, span(sums, next, count));
    next += count;
  }
}

void RankState::spoil() {
  static const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor read = trained_.empty() ? frozen_->arena() : trained_.front()->storage.settled();
  const std::size_t bytes = size_of(read.dtype);  // the upper half of a float is a bf16
  ops_.stream().copy(read.data, reinterpret_cast<const char*>(&nan) + sizeof nan - bytes, bytes);
}

std::vector<Stream*> RankState::transfer_streams() {
  std::vector<Stream*> streams;
  for (const auto& group : trained_) {
    const std::vector<Stream*> own = group->storage.transfer_streams();
    streams.insert(streams.end(), own.begin(), own.end());
  }
  return streams;
}

MemoryUse RankState::memory(const RankSetup& setup, const ParameterLayout& layout) {
  MemoryUse use;
  for (const GroupLayout& group : group_layouts(layout)) {
    use += is_trained(group.group) ? storage_memory(storage_setup(setup, group.layout))
                                   : FrozenWeights::memory(frozen_setup(setup, group.layout));
  }
  return use;
}

}  // namespace pipetrain
