#include "actors/training/offload/offload_storage.hpp"
#include "actors/training/state/fetched_parameters.hpp"
#include "actors/training/state/fetched_shards.hpp"
#include "actors/training/state/gathered_parameters.hpp"
#include "actors/training/state/offloaded_gradient_storage.hpp"
#include "actors/training/state/offloaded_optimizer.hpp"
#include "actors/training/state/saved_parts.hpp"
#include "actors/training/state/storage_setup.hpp"

namespace pipetrain {
namespace {

// Returns the bytes of the memory into which weights are brought for operations, and of the buffers on their way there.
std::size_t coming_bytes(const StatePlaces& places, const StorageSetup& setup) {
  const DType type = setup.places.precision.compute;
  const bool fetches = setup.places.offload.parameters;
  if (!places.gathers_weights())
    return fetches ? FetchedParameters::sizes(setup.layout, places.units(), setup.prefetch, type).bytes() : 0;
  const std::size_t gathered = GatheredParameters::sizes(setup.layout, places.units(), setup.prefetch).total() * size_of(type);
  return gathered + (fetches ? FetchedShards::bytes(places.shard_ranges(), type) : 0);
}

}  // namespace

MemoryUse storage_memory(const StorageSetup& setup) {
  const Precision& precision = setup.places.precision;
  const Offload& offload = setup.places.offload;
  const StatePlaces places(setup.layout, setup.places);
  const auto optimizer = make_optimizer(setup.optimizer);
  const auto here = ResidentOptimizer::lengths(places, precision, offload);
  MemoryUse use;
  const auto add_outside = [&](const StorageBytes& bytes) { add_offloaded(bytes, offload, setup.device, use); };
  use.parameters = here.weights * size_of(precision.master) + here.rounded * size_of(precision.compute);
  use.parameters += coming_bytes(places, setup);
  if (offload.parameters) add_outside(OffloadedArray::bytes(OffloadedOptimizer::operand_lengths(places, precision.compute)));
  if (offload.optimizer || offload.parameters) {
    const auto blocks = OffloadedOptimizer::blocks(*optimizer, places.states(), offload, precision);
    use.optimizer = blocks.device_bytes();
    add_outside({blocks.outside_bytes(), blocks.block_bytes()});
  }
  use.optimizer += optimizer->states().size() * here.states * size_of(precision.master);
  use.gradients = places.grads() * size_of(precision.grad);
  if (offload.gradients) {
    use.gradients += OffloadedGradientStorage::alignment * size_of(precision.grad);
    add_outside(OffloadedArray::bytes(outside_gradients(setup.layout, places.units(), places.offloaded_ranges())));
  }
  if (setup.saves) {
    for (const HeldPart& part : saved_parts(setup, places)) use.snapshot += part.size() * sizeof(float);
    use.snapshot *= 1 + optimizer->states().size();
  }
  for (const HeldPart& part : places.held()) use.copies += part.size() * sizeof(float);
  use.copies *= static_cast<std::size_t>(setup.kept_copies) * (1 + optimizer->states().size());
  return use;
}

}  // namespace pipetrain
