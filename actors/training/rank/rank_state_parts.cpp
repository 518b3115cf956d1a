// What a rank's state is made of: its arenas, on the device and outside, and what brings weights and gradients there.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "actors/training/rank/rank_memory.hpp"
#include "actors/training/rank/rank_state.hpp"
#include "actors/training/state/fetched_parameters.hpp"
#include "actors/training/state/fetched_runs.hpp"
#include "actors/training/state/gathered_parameters.hpp"
#include "actors/training/state/published_parameters.hpp"
#include "actors/training/state/saved_parts.hpp"
#include "model/parameters/arena_views.hpp"

namespace pipetrain {
namespace {

GatheredParameters::Sizes gathered_sizes(const StatePlaces& places, const RankSetup& setup, const ParameterLayout& layout) {
  return GatheredParameters::sizes(layout, places.units(), setup.zero.prefetch);
}

// Master weights that operations do not read.
bool offloads_masters(const RankSetup& setup) { return setup.offload.optimizer && setup.numerics.precision.rounds_weights(); }

// The weights that the optimizer updates, masters or not.
bool offloads_weights(const RankSetup& setup) {
  return offloads_masters(setup) || (setup.offload.parameters && !setup.numerics.precision.rounds_weights());
}

FetchedParameters::Sizes fetched_sizes(const StatePlaces& places, const RankSetup& setup, const ParameterLayout& layout) {
  return FetchedParameters::sizes(layout, places.units(), setup.zero.prefetch, setup.numerics.precision.compute);
}

// All weights, or this rank's runs of them where replicas divide them: at the places of the optimizer's states.
OffloadedArray::Lengths operand_lengths(const StatePlaces& places, const RankSetup& setup) {
  std::size_t largest = OffloadedBlocks(0, places.states()).block_elements();
  for (const ShardUnit& unit : places.units()) {
    const Region fetched = places.gathers_weights() ? places.run(unit) : unit.weights;
    largest = std::max(largest, fetched.size());
  }
  return {places.states(), largest, setup.numerics.precision.compute};
}

// What weights come into, for operations to read, and on their way there.
std::size_t coming_bytes(const StatePlaces& places, const RankSetup& setup, const ParameterLayout& layout) {
  const DType type = setup.numerics.precision.compute;
  if (!places.gathers_weights()) return setup.offload.parameters ? fetched_sizes(places, setup, layout).bytes() : 0;
  const std::size_t gathered = gathered_sizes(places, setup, layout).total() * size_of(type);
  return gathered + (setup.offload.parameters ? FetchedRuns::bytes(places.shard_runs(), type) : 0);
}

// More than StatePlaces::grads(): where they move as pages, they begin with one.
std::size_t grads_alignment(const RankSetup& setup) {
  return setup.offload.gradients ? OffloadPlace::granularity / sizeof(float) : 0;
}

Tensor align_to_pages(Tensor arena) {
  constexpr std::uintptr_t page = OffloadPlace::granularity;
  const auto begin = reinterpret_cast<std::uintptr_t>(arena.data), first = (begin + page - 1) / page * page;
  return span(arena, (first - begin) / sizeof(float), static_cast<std::size_t>(arena.elements()) - page / sizeof(float));
}

// Bytes of a weight that the optimizer's step brings in and out for operations.
std::size_t rank_operand_bytes(const RankSetup& setup) {
  return setup.offload.parameters ? size_of(setup.numerics.precision.compute) : 0;
}

}  // namespace

StatePlaces::Setup RankState::places_setup(const RankSetup& setup) {
  // One microbatch's gradients are complete as they come.
  const bool leave_summed = setup.zero.divides_grads() && setup.replicas > 1 && setup.microbatches == 1 && setup.same_order;
  return {.zero = setup.zero,
          .place = place_among(setup.zero, setup.replicas, setup.replica),
          .precision = setup.numerics.precision,
          .actions = setup.actions,
          .offload = setup.offload,
          .grads_leave_summed = leave_summed,
          .previews = setup.previews};
}

void RankState::allocate_arenas() {
  const Precision& precision = setup_.numerics.precision;
  const Length weights{offloads_weights(setup_) ? 0 : places_.weights(), precision.master};
  const Length rounded{setup_.offload.parameters ? 0 : places_.rounded(), precision.compute};
  const Length grads{places_.grads() + grads_alignment(setup_), precision.grad};
  if (weights.elements > 0) arenas_.weights = allocate(weights, "parameters");
  arenas_.grads = allocate(grads, "gradients");
  if (setup_.offload.gradients) arenas_.grads = align_to_pages(arenas_.grads);
  if (rounded.elements > 0) arenas_.rounded = allocate(rounded, "rounded parameters");
  if (places_.gathers_weights())
    gathered_ = allocate({gathered_sizes(places_, setup_, layout_).total(), precision.compute}, "gathered parameters");
  if (setup_.offload.parameters && !places_.gathers_weights()) {
    const std::size_t bytes = fetched_sizes(places_, setup_, layout_).bytes();
    gathered_ = allocate({bytes / size_of(precision.compute), precision.compute}, "fetched parameters");
  }
  if (setup_.offload.optimizer) return;
  for (const std::string& name : optimizer_->states())
    arenas_.states.push_back(allocate({places_.states(), precision.master}, "optimizer state " + name));
}

void RankState::make_offloaded() {
  const Offload& offload = setup_.offload;
  const std::string name = to_string(setup_.id);
  if (offload.optimizer || offload.parameters || offload.gradients) offload_streams_.emplace(*setup_.device, name);
  if (!offload.optimizer && !offload.parameters) return;
  if (setup_.offload.parameters) {
    operands_ = std::make_unique<OffloadedArray>(
        OffloadedArray::Setup{*setup_.device, *offload_streams_, setup_.offload.folder, name + ": offloaded parameters"},
        operand_lengths(places_, setup_));
  }
  offloaded_ = std::make_unique<OffloadedOptimizer>(
      OffloadedOptimizer::Setup{.device = *setup_.device,
                                .streams = *offload_streams_,
                                .optimizer = *optimizer_,
                                .units = steps_,
                                .elements = places_.states(),
                                .outside = {setup_.offload.optimizer, offloads_masters(setup_), operands_.get()},
                                .rounds = setup_.numerics.precision.rounds_weights(),
                                .folder = setup_.offload.folder,
                                .name = name},
      ops_);
}

void RankState::make_offloaded_gradients() {
  outside_grads_ =
      std::make_unique<OffloadedArray>(OffloadedArray::Setup{*setup_.device, *offload_streams_, setup_.offload.folder,
                                                             to_string(setup_.id) + ": offloaded gradients"},
                                       outside_gradients(layout_, places_.units(), places_.offloaded_runs()));
  std::vector<void*> slots;
  for (std::size_t unit = 0; unit < places_.units().size(); ++unit) {
    const bool leaves = leaves_with_gradients(layout_, places_.units()[unit]);
    slots.push_back(leaves ? grads(places_.sums(unit)).data : nullptr);
  }
  OffloadedGradients::Setup setup{layout_, places_.units(), *setup_.device, ops_.stream(), places_.offloaded_runs()};
  if (reduction_) {
    setup.transfer = &reduction_->stream();
    setup.sum = [this](Stream& transfer, std::size_t unit) {
      if (owner_sums_) return owner_sums_->sum_unit(transfer, unit);
      setup_.groups.data->all_reduce(transfer, grads(places_.sums(unit)), Reduction::sum);
    };
  }
  offloaded_grads_ = std::make_unique<OffloadedGradients>(setup, *outside_grads_, slots);
}

void RankState::make_reduction() {
  SumOverReplicas sum = sum_for_all(setup_.groups.data);
  if (places_.is_sharded()) {
    std::vector<OwnerSums::Unit> units;
    // Of offloaded ones the slots, in which units take turns too, are not opened here.
    for (std::size_t i = 0; i < places_.units().size(); ++i)
      units.push_back({places_.units()[i], grads(places_.sums(i)), grads(places_.own_sums(i)),
                       places_.is_pooled(i) && !setup_.offload.gradients});
    owner_sums_ = std::make_shared<OwnerSums>(*setup_.device, setup_.groups.data, std::move(units));
    sum = [owners = owner_sums_](Stream& stream, const Tensor& part) { owners->sum(stream, part); };
  }
  reduction_ = std::make_unique<GradientReduction>(*setup_.device, std::move(sum), "sums over replicas");
}

void RankState::make_parameters() {
  if (!places_.is_sharded() && !operands_) {
    parameters_ = std::make_unique<ResidentParameters>(layout_, operands());
    return;
  }
  std::unique_ptr<StepParameters> coming = places_.is_sharded() ? make_divided_parameters() : make_fetched_parameters();
  coming_ = coming.get();
  parameters_ = std::move(coming);
}

std::unique_ptr<StepParameters> RankState::make_fetched_parameters() {
  const auto sequence = [&](schedules::StepKind kind) { return block_sequence(layout_, setup_.actions, kind); };
  return std::make_unique<FetchedParameters>(
      FetchedParameters::Setup{layout_, places_.units(), *setup_.device, ops_.stream(), setup_.zero.prefetch}, *operands_,
      gathered_.data, UnitTurns::Sequences{sequence(schedules::StepKind::training), sequence(schedules::StepKind::evaluation)});
}

std::unique_ptr<StepParameters> RankState::make_divided_parameters() {
  const DividedParameters::Setup setup{layout_,       places_.units(),      *setup_.device,
                                       ops_.stream(), reduction_->stream(), *setup_.groups.data};
  if (!places_.gathers_weights()) return std::make_unique<PublishedParameters>(setup, operands());
  GatheredParameters::Memory memory{nullptr, gathered_};
  if (operands_) {
    memory.runs = std::make_unique<FetchedRuns>(*setup_.device, *operands_, places_.shard_runs(), to_string(setup_.id));
  } else {
    // A replica that owns no part of a small stage has no arena.
    const Tensor none{nullptr, {0}, setup_.numerics.precision.compute};
    memory.runs = std::make_unique<ResidentRuns>(operands().data ? operands() : none, places_.shard_runs());
  }
  const auto sequence = [&](schedules::StepKind kind) { return block_sequence(layout_, setup_.actions, kind); };
  return std::make_unique<GatheredParameters>(
      setup, std::move(memory), setup_.zero.prefetch,
      UnitTurns::Sequences{sequence(schedules::StepKind::training), sequence(schedules::StepKind::evaluation)});
}

MemoryUse RankState::memory(const RankSetup& setup, const ParameterLayout& layout) {
  const Precision& precision = setup.numerics.precision;
  const StatePlaces places(layout, places_setup(setup));
  MemoryUse use;
  const std::size_t weights = offloads_weights(setup) ? 0 : places.weights();
  const std::size_t rounded = setup.offload.parameters ? 0 : places.rounded();
  use.parameters = weights * size_of(precision.master) + rounded * size_of(precision.compute);
  use.parameters += coming_bytes(places, setup, layout);
  if (setup.offload.parameters) add_outside(setup, OffloadedArray::bytes(operand_lengths(places, setup)), use);
  const auto optimizer = make_optimizer(setup.optimizer);
  if (setup.offload.optimizer || setup.offload.parameters) {
    const auto blocks = OffloadedOptimizer::blocks(
        *optimizer, places.states(), {setup.offload.optimizer, offloads_masters(setup)}, rank_operand_bytes(setup));
    use.optimizer = blocks.device_bytes();
    add_outside(setup, {blocks.outside_bytes(), blocks.block_bytes()}, use);
  }
  if (!setup.offload.optimizer) use.optimizer += optimizer->states().size() * places.states() * size_of(precision.master);
  use.gradients = (places.grads() + grads_alignment(setup)) * size_of(precision.grad);
  if (setup.offload.gradients)
    add_outside(setup, OffloadedArray::bytes(outside_gradients(layout, places.units(), places.offloaded_runs())), use);
  if (setup.saves) {
    for (const HeldPart& part : saved_parts(layout, places, setup.id)) use.snapshot += part.size() * sizeof(float);
    use.snapshot *= 1 + make_optimizer(setup.optimizer)->states().size();
  }
  return use;
}

Tensor RankState::allocate(const Length& length, const std::string& what) {
  const std::size_t bytes = align_up(length.elements * size_of(length.dtype));
  memory_.push_back(setup_.device->allocate(bytes, to_string(setup_.id) + ": " + what));
  return {memory_.back().data(), {static_cast<std::int64_t>(length.elements)}, length.dtype};
}

}  // namespace pipetrain
