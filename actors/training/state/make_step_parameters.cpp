#include "actors/training/state/make_step_parameters.hpp"

#include "actors/training/state/coded_units.hpp"
#include "actors/training/state/fetched_parameters.hpp"
#include "actors/training/state/fetched_shards.hpp"
#include "actors/training/state/gathered_parameters.hpp"
#include "actors/training/state/published_parameters.hpp"

namespace pipetrain {
namespace {

UnitSlots::Sequences block_sequences(const StepParameters::Setup& setup, const StatePlaces& places) {
  const auto sequence = [&](schedules::StepKind kind) { return block_sequence(setup.layout, places.actions(), kind); };
  return {sequence(schedules::StepKind::training), sequence(schedules::StepKind::evaluation)};
}

std::unique_ptr<OwnShards> own_shards(const StepParameters::Setup& setup, const WeightMemory& where) {
  if (where.outside != nullptr)
    return std::make_unique<FetchedShards>(setup.device, *where.outside, where.places.shard_ranges(), setup.rank);
  // A replica that owns no part of a small stage has no arena.
  const Tensor none{nullptr, {0}, where.places.precision().compute};
  return std::make_unique<ResidentShards>(where.operands.data ? where.operands : none, where.places.shard_ranges());
}

}  // namespace

std::unique_ptr<StepParameters> make_step_parameters(const StepParameters::Setup& setup, const WeightMemory& where) {
  std::optional<Replicas> replicas = where.replicas;
  if (const auto& [code, group] = where.code; replicas && code != BlockCode::none)
    replicas->coded = std::make_shared<CodedUnits>(setup.layout, setup.units, code, setup.device, group, setup.rank);
  if (where.places.gathers_weights())
    return std::make_unique<GatheredParameters>(setup, *replicas, own_shards(setup, where), where.prefetch,
                                                block_sequences(setup, where.places));
  if (replicas) return std::make_unique<PublishedParameters>(setup, *replicas, where.operands);
  if (where.outside != nullptr)
    return std::make_unique<FetchedParameters>(setup, *where.outside, where.prefetch, block_sequences(setup, where.places));
  return std::make_unique<StandingParameters>(setup.layout, where.operands);
}

}  // namespace pipetrain
