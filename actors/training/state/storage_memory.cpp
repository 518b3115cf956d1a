#include "actors/training/offload/offload_storage.hpp"
#include "actors/training/state/eight_bit_optimizer.hpp"
#include "actors/training/state/fetched_parameters.hpp"
#include "actors/training/state/fetched_shards.hpp"
#include "actors/training/state/gathered_parameters.hpp"
#include "actors/training/state/offloaded_gradient_storage.hpp"
#include "actors/training/state/offloaded_optimizer.hpp"
#include "actors/training/state/saved_parts.hpp"
#include "actors/training/state/storage_setup.hpp"
#include "actors/training/state/tensor_states.hpp"
#include "actors/training/sums/compressed_gradients.hpp"
#include "comm/compressed/compressed_gather.hpp"

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

// Returns the bytes of the optimizer's states on the device.
std::size_t resident_state_bytes(const Optimizer& optimizer, const StatePlaces& places, bool previews) {
  if (optimizer.granularity() == Granularity::matrix) return TensorStates(optimizer, places, previews).bytes();
  if (optimizer.granularity() == Granularity::block) return optimizer.states().size() * EightBitPlaces(places).bytes();
  return optimizer.states().size() * places.states() * sizeof(float);
}

// Returns the tensors whose gradients are compressed; nothing where none are.
std::optional<CompressedTensors> compressed_tensors(const StorageSetup& setup, const StatePlaces& places) {
  if (setup.compression.code == BlockCode::none || setup.compression.replicas == 1) return {};
  return CompressedTensors(places, setup.compression);
}

enum class CopiedParts { all, saved };

// Returns the bytes of the weights and all states of the rank's parts in f32.
std::size_t copied_bytes(const StorageSetup& setup, const Optimizer& optimizer, const StatePlaces& places, CopiedParts which) {
  const std::set<std::size_t> saved = saved_parameters(setup, places);
  const auto is_copied = [&](std::size_t parameter) { return which == CopiedParts::all || saved.contains(parameter); };
  std::size_t elements = 0;
  for (const HeldPart& part : places.held())
    if (is_copied(part.parameter)) elements += part.size();
  if (optimizer.granularity() != Granularity::matrix) return elements * (1 + optimizer.states().size()) * sizeof(float);
  const TensorStates states(optimizer, places, false);
  for (std::size_t state = 0; state < optimizer.states().size(); ++state) {
    for (const TensorStates::Part& part : states.parts(state, setup.layout)) {
      const bool is_elsewhere = part.own && setup.rank.tp > 0 && which == CopiedParts::saved;
      if (is_copied(part.held.parameter) && !is_elsewhere) elements += part.held.size();
    }
  }
  return elements * sizeof(float);
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
  if (setup.weights_code != BlockCode::none && places.is_sharded())
    use.parameters += align_up(CompressedGather::bytes(setup.weights_code, setup.places.place.replicas));
  if (offload.parameters) add_outside(OffloadedArray::bytes(OffloadedOptimizer::operand_lengths(places, precision.compute)));
  if (offload.optimizer || offload.parameters) {
    const auto blocks = OffloadedOptimizer::blocks(*optimizer, places.states(), offload, precision);
    use.optimizer = blocks.device_bytes();
    add_outside({blocks.outside_bytes(), blocks.block_bytes()});
  }
  if (!offload.optimizer) use.optimizer += resident_state_bytes(*optimizer, places, setup.places.previews);
  use.gradients = places.grads() * size_of(precision.grad);
  if (offload.gradients) {
    use.gradients += OffloadedGradientStorage::alignment * size_of(precision.grad);
    add_outside(OffloadedArray::bytes(outside_gradients(setup.layout, places.units(), places.offloaded_ranges())));
  }
  const auto compressed = compressed_tensors(setup, places);
  const std::size_t errors = compressed ? compressed->errors() * sizeof(float) : 0;
  if (compressed) use.gradients += compressed->bytes();
  if (setup.saves) use.snapshot = copied_bytes(setup, *optimizer, places, CopiedParts::saved) + errors;
  if (setup.kept_copies > 0)
    use.copies =
        static_cast<std::size_t>(setup.kept_copies) * (copied_bytes(setup, *optimizer, places, CopiedParts::all) + errors);
  return use;
}

}  // namespace pipetrain
