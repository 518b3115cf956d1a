#include "actors/training/rank/rank_state.hpp"

#include <algorithm>
#include <limits>

#include "actors/training/checkpoint/kept_states.hpp"
#include "core/error.hpp"
#include "model/parameters/arena_views.hpp"

namespace pipetrain {
namespace {

// True when this memory is in the arena.
bool lies_in(const Tensor& memory, const Tensor& arena) {
  const auto* const begin = static_cast<const char*>(arena.data);
  const auto* const at = static_cast<const char*>(memory.data);
  return at >= begin && at < begin + arena.bytes();
}

}  // namespace

RankState::RankState(const RankSetup& setup, const ParameterLayout& layout, const TensorParallel& tp, Ops& ops)
    : setup_(setup),
      layout_(layout),
      tp_(tp),
      ops_(ops),
      storages_(setup, layout, tp, ops),
      snapshot_memory_(setup.kept ? setup.kept->memory() : std::make_shared<SnapshotMemory>()) {
  if (ReferenceWeights::are_needed(setup))
    reference_ = std::make_unique<ReferenceWeights>(setup, layout, storages_, ops.stream());
  if (setup.saves && !(setup.kept && setup.kept->held())) snapshot();
  if (setup.copies) copies_.emplace(RankCopies::Setup{setup.rank, setup.device, setup.copies, setup.buddies}, storages_.held());
}

MemoryUse RankState::memory(const RankSetup& setup, const ParameterLayout& layout) {
  MemoryUse use = GroupStorages::memory(setup, layout);
  if (ReferenceWeights::are_needed(setup)) use += ReferenceWeights::memory(setup, layout);
  if (setup.kept_copies > 0 && setup.devices.kind == DeviceKind::cuda)
    use.copies += StagedTransfers::locked_bytes(use.copies / static_cast<std::size_t>(setup.kept_copies));
  return use;
}

void RankState::load(const InitialState& state) {
  if (copies_) copies_->begin_locking();
  storages_.load(state);
  if (reference_) reference_->load(*state.reference);
  applied_steps_ = state.applied_steps;
}

void RankState::load_or_continue(const InitialState& state) {
  if (setup_.continued.copies == nullptr) return load(state);
  const StateCopy* const copy = setup_.continued.copies->of(setup_.continued.step);
  if (copy == nullptr || copy->values.size() != count_elements(storages_.held()))
    throw Error(ErrorKind::internal,
                to_string(setup_.id) + ": there is no copy of its state after step " + std::to_string(setup_.continued.step));
  storages_.restore(state, copy->values.data(), copies_ ? copies_->staged() : nullptr);
  if (reference_) reference_->load(*state.reference);
  applied_steps_ = copy->applied_steps();
}

void RankState::keep_copy(std::int64_t step) {
  if (copies_) copies_->keep(step, applied_steps_);
}

StateSnapshot& RankState::snapshot() {
  if (!snapshot_) snapshot_.emplace(*setup_.device, to_string(setup_.id), storages_.saved(), *snapshot_memory_);
  return *snapshot_;
}

void RankState::keep_snapshot() {
  snapshot_->wait();
  if (!snapshot_->pieces().empty()) setup_.kept->add(setup_.rank, layout_, *snapshot_);
}

bool RankState::any_gradients(bool (GradientStorage::*has)() const) const {
  return std::any_of(storages_.trained().begin(), storages_.trained().end(),
                     [has](const auto& group) { return (group->storage.gradients().*has)(); });
}

void RankState::open_gradients(std::size_t block) {
  for (const auto& group : storages_.trained()) {
    if (group->storage.gradients().opens()) group->storage.gradients().open(block);
  }
}

void RankState::close_gradients(std::size_t block, bool last) {
  for (const auto& group : storages_.trained()) group->storage.gradients().close(block, last);
}

void RankState::begin_step(const StepInfo& step) {
  // Compressed sums change their errors, which are saved, before the optimizer's step.
  const bool compresses = setup_.compression.gradients != BlockCode::none;
  if (compresses && snapshot_) snapshot_->protect(ops_.stream());
  if (compresses && copies_) copies_->protect(ops_.stream());
  for (const auto& group : storages_.trained()) group->storage.begin_step(step, applied_steps_);
}

void RankState::start_reduction(const Tensor& grads) {
  for (const auto& group : storages_.trained()) {
    GradientStorage& gradients = group->storage.gradients();
    if (!lies_in(grads, gradients.arena())) continue;
    if (gradients.is_replicated()) gradients.start_reduction(grads);
    return;
  }
}

void RankState::reduce(int chunk) {
  for (const auto& group : storages_.trained()) group->storage.gradients().reduce(chunk);
}

void RankState::sum_replicated(int chunk) {
  for (const auto& group : storages_.trained()) {
    const ParameterStorage& storage = group->storage;
    const StatePlaces& places = storage.places();
    sum_partial_grads(storage.gradients().part(places.partial_grads(chunk, tp_.sequence_parallel)), tp_, ops_);
    sum_copied_grads(places.copied(chunk, storage.gradients().arena(), tp_), tp_, ops_);
  }
}

// Returns the sums of the tied table: all of them, or this rank's range.
TiedGrads RankState::tied_sums(const TrainedGroup& group) const {
  const StatePlaces& places = group.storage.places();
  const GradientStorage& gradients = group.storage.gradients();
  if (!places.is_sharded() && !places.pools()) return tied_grads(group.of.layout, setup_.config, gradients.arena());
  TiedGrads tied;
  if (!setup_.config.shares_table()) return tied;
  const auto own = [&](TensorRole role) { return gradients.part(places.own_sums(role)); };
  if (find_tensor(group.of.layout, TensorRole::token_table)) tied.embedding = own(TensorRole::token_table);
  const TensorRole copy = tied_copy_role(setup_.config);
  if (find_tensor(group.of.layout, copy)) tied.copy = own(copy);
  return tied;
}

// Both ends of a tie are in one group.
void RankState::sum_tied() {
  for (const auto& group : storages_.trained()) {
    const TiedGrads tied = tied_sums(*group);
    if (!setup_.groups.tied) {
      sum_tied_grads(tied, ops_);
    } else if (tied.has_embedding() || tied.has_copy()) {
      const Tensor& own = tied.has_embedding() ? tied.embedding : tied.copy;
      if (own.elements() > 0) setup_.groups.tied->all_reduce(ops_.stream(), own, Reduction::sum);
    }
  }
}

std::size_t RankState::sum_count() const {
  std::size_t count = 0;
  for (const auto& group : storages_.trained()) count += count_sums(group->counted);
  return count;
}

void RankState::square_sums(const Tensor& sums) {
  std::size_t next = 0;
  for (const auto& group : storages_.trained()) {
    const std::size_t count = count_sums(group->counted);
    group->storage.gradients().square_sums(group->counted, span(sums, next, count));
    next += count;
  }
}

void RankState::preview(float lr, float grad_scale) {
  for (const auto& group : storages_.trained()) group->storage.preview({lr, applied_steps_ + 1, grad_scale});
}

void RankState::restore() {
  for (const auto& group : storages_.trained()) group->storage.restore();
}

void RankState::step(OptimizerStep step) {
  step.step = ++applied_steps_;
  if (snapshot_) snapshot_->protect(ops_.stream());
  if (copies_) copies_->protect(ops_.stream());
  for (const auto& group : storages_.trained()) group->storage.step(step);
}

void RankState::begin_rehearsal() {
  for (const auto& group : storages_.trained()) group->storage.begin_rehearsal();
}

void RankState::end_rehearsal(const Tensor& sums) {
  std::size_t next = 0;
  for (const auto& group : storages_.trained()) {
    const std::size_t count = count_sums(group->counted);
    group->storage.end_rehearsal(group->counted, span(sums, next, count));
    next += count;
  }
}

void RankState::spoil() {
  static const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor read = storages_.settled();
  const std::size_t bytes = size_of(read.dtype);  // the upper half of a float is a bf16
  ops_.stream().copy(read.data, reinterpret_cast<const char*>(&nan) + sizeof nan - bytes, bytes);
}

std::vector<Stream*> RankState::transfer_streams() {
  std::vector<Stream*> streams;
  for (const auto& group : storages_.trained()) {
    for (Stream* const own : group->storage.transfer_streams())
      if (std::find(streams.begin(), streams.end(), own) == streams.end()) streams.push_back(own);
  }
  return streams;
}

}  // namespace pipetrain
