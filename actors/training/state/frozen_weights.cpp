#include "actors/training/state/frozen_weights.hpp"

#include <string>

#include "actors/ranks/load_weights.hpp"
#include "actors/training/state/saved_parts.hpp"
#include "model/optimizer/optimizer.hpp"

namespace pipetrain {

FrozenWeights::FrozenWeights(const Setup& setup, Stream& stream)
    : setup_(setup),
      stream_(stream),
      memory_(stream.device().allocate(align_up(setup.layout.weight_elements * size_of(setup.type)),
                                       to_string(setup.rank) + ": frozen parameters")),
      arena_{memory_.data(), {static_cast<std::int64_t>(setup.layout.weight_elements)}, setup.type},
      views_(setup.layout, arena_) {
  stream_.zero(arena_);  // rows that pad a table stay zero
}

void FrozenWeights::load(const WeightSource& source) { load_weights(source, setup_.layout, stream_, arena_); }

void FrozenWeights::read(std::size_t parameter, const Region& elements, float* out) const {
  const std::size_t begin = setup_.layout.parameters[parameter].offset;
  copy_as_floats(stream_, arena_, {begin + elements.begin, begin + elements.end}, out);
}

std::vector<HeldState> FrozenWeights::saved() const {
  std::vector<HeldState> saved;
  if (!setup_.is_saved) return saved;
  for (const HeldPart& part : saved_frozen_parts(setup_.layout, setup_.rank)) {
    HeldState& held = saved.emplace_back(HeldState{weights_state, part.parameter, {part.begin, part.end}});
    held.read = [this, parameter = part.parameter, elements = held.elements](float* out) { read(parameter, elements, out); };
  }
  return saved;
}

MemoryUse FrozenWeights::memory(const Setup& setup) {
  MemoryUse use;
  use.parameters = setup.layout.weight_elements * size_of(setup.type);
  if (!setup.saves || !setup.is_saved) return use;
  for (const HeldPart& part : saved_frozen_parts(setup.layout, setup.rank)) use.snapshot += part.size() * sizeof(float);
  return use;
}

}  // namespace pipetrain
