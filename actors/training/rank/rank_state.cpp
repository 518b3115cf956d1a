#include "actors/training/rank/rank_state.hpp"

#include <limits>

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

}  // namespace

RankState::RankState(const RankSetup& setup, const ParameterLayout& layout, const TensorParallel& tp, Ops& ops)
    : setup_(setup), layout_(layout), tp_(tp), ops_(ops), storage_(storage_setup(setup, layout), ops) {
  // Where ranks share sequences and keep the same, the first part's rank counts.
  const StatePlaces& places = storage_.places();
  if (setup.id.cp == 0 || places.is_sharded()) counted_ = places.counted(setup.id.tp);
}

void RankState::load(const InitialState& state) {
  storage_.load(weights_state, *state.weights);
  for (const auto& [name, source] : state.states) storage_.load(name, *source);
  applied_steps_ = state.applied_steps;
  storage_.loaded();
}

const HeldPart& RankState::holder(const StatePart& part) const {
  for (const HeldPart& held : storage_.places().held()) {
    if (held.parameter == part.parameter && held.begin <= part.begin && part.begin + part.elements <= held.end) return held;
  }
  throw Error(ErrorKind::internal,
              to_string(setup_.id) + " holds no such part of its parameter " + std::to_string(part.parameter));
}

void RankState::read(const StatePart& part, float* out) {
  storage_.read(part.state, holder(part), {part.begin, part.begin + part.elements}, out);
}

void RankState::sum_replicated(int chunk) {
  sum_replicated_grads(storage_.gradients().part(storage_.places().replicated_grads(chunk)), tp_, ops_);
}

// The sums of the table that is tied: all of them, or this rank's run.
TiedGrads RankState::tied_sums() const {
  const StatePlaces& places = storage_.places();
  const GradientStorage& gradients = storage_.gradients();
  if (!places.is_sharded() && !places.pools()) return tied_grads(layout_, setup_.config, gradients.arena());
  TiedGrads tied;
  if (!setup_.config.tied_embeddings) return tied;
  const auto own = [&](TensorRole role) { return gradients.part(places.own_sums(role)); };
  if (find_tensor(layout_, TensorRole::token_table)) tied.embedding = own(TensorRole::token_table);
  if (find_tensor(layout_, TensorRole::output_weight)) tied.head = own(TensorRole::output_weight);
  return tied;
}

void RankState::sum_tied() {
  const TiedGrads tied = tied_sums();
  if (setup_.groups.tied) {
    const Tensor& own = tied.has_embedding() ? tied.embedding : tied.head;
    if (own.elements() > 0) setup_.groups.tied->all_reduce(ops_.stream(), own, Reduction::sum);
  } else {
    sum_tied_grads(tied, ops_);
  }
}

void RankState::spoil() {
  static const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor read = storage_.settled();
  const std::size_t bytes = size_of(read.dtype);  // the upper half of a float is a bf16
  ops_.stream().copy(read.data, reinterpret_cast<const char*>(&nan) + sizeof nan - bytes, bytes);
}

MemoryUse RankState::memory(const RankSetup& setup, const ParameterLayout& layout) {
  return storage_memory(storage_setup(setup, layout));
}

}  // namespace pipetrain
