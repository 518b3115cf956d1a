// How the data-parallel replicas divide what they keep of one rank's weights (ZeRO: Rajbhandari et al. 2020, arXiv 1910.02054).
//
// A unit is a run of the rank's arenas that one collective gathers or sums: the matrices of a block, a table of words, or the
// vectors of a chunk. Replica r owns one run of each unit, in rank order. Cuts lie where blocks of the gradient norm begin
// (norm_block_elements of one parameter's slice), so that norms have the same bits whoever sums the blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/parameters/parameters.hpp"

namespace pipetrain {

inline constexpr std::size_t norm_block_elements = 65536;  // as Ops::square_sums

struct ShardUnit {
  Region weights;                  // of the weight arena
  std::size_t grads = 0;           // where it begins in the gradient arena; it is as long there
  std::vector<std::int64_t> cuts;  // where each replica's run begins, in elements of the unit, and the unit's length
  std::size_t block = 0;           // in ParameterLayout::blocks; of vectors: any of the chunk
  int chunk = 0;
  // Small: vectors and tables of positions. Every replica keeps and sums all of them, but only the owner steps them.
  bool vectors = false;
  // The second accumulator of a tied table that the stage stores once: it has the cuts and the weights of the table.
  bool tied_copy = false;

  Region run(int replica) const {
    const auto at = static_cast<std::size_t>(replica);
    return {static_cast<std::size_t>(cuts[at]), static_cast<std::size_t>(cuts[at + 1])};
  }
};

// Every element of the layout's gradient arena is in one unit, in its order. The runs of a replica are, all units together, as
// long as any other's but for about a norm block. Those of a table of words, which may be tied to another stage's and is then
// cut alike there, depend on the table alone. Pure.
std::vector<ShardUnit> shard_units(const ParameterLayout& layout, int replicas);

// A run of one parameter's local slice, dense, whole norm blocks from its beginning.
struct HeldPart {
  std::size_t parameter = 0;       // in ParameterLayout::parameters
  std::size_t begin = 0, end = 0;  // elements of the slice
  std::size_t unit = 0;
  std::size_t size() const { return end - begin; }
};

// Which parts of which tensors this replica owns: in the layout's order of parameters, none empty. Pure.
std::vector<HeldPart> held_parts(const ParameterLayout& layout, const std::vector<ShardUnit>& units, int replica);
// All parameters of the layout as a rank has them that divides nothing; of no unit.
std::vector<HeldPart> whole_parameters(const ParameterLayout& layout);

}  // namespace pipetrain
