#include "model/config/recompute_layers.hpp"

namespace pipetrain {

std::vector<Recompute> recompute_of_blocks(const std::vector<Block>& chunk, const Numerics& numerics, int slices) {
  constexpr std::int64_t blocks_of_layer = 2;
  std::vector<Recompute> kinds;
  std::int64_t inner = 0;  // attention and MLP blocks before this one
  for (const Block& block : chunk) {
    const bool first = is_of_layer(block.kind) && inner++ < blocks_of_layer * numerics.recompute_layers.value_or(0);
    Recompute kind = first || !numerics.recompute_layers ? numerics.recompute : lighter(numerics.recompute);
    if (slices > 1 && block.kind == BlockKind::attention && kind == Recompute::full) kind = lighter(kind);
    kinds.push_back(kind);
  }
  return kinds;
}

}  // namespace pipetrain
