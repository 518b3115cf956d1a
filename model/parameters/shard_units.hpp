// Shard units: how the data-parallel replicas divide one rank's weights, gradients and states (ZeRO:
// Rajbhandari et al. 2020, arXiv 1910.02054).
//
// A unit is a range of the rank's arenas that one collective gathers or sums: the matrices of a block, a token
// table, or the vectors of a chunk. Replica r owns one range of each unit, in rank order. Cuts lie at block
// boundaries of the gradient norm (norm_block_elements of one parameter's slice), so that norms have the same
// bits whichever rank sums the blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/parameters/parameters.hpp"

namespace pipetrain {

inline constexpr std::size_t norm_block_elements = 65536;  // as Ops::square_sums

// The places at which a unit may be cut.
enum class ShardCuts {
  norm_blocks,  // the beginnings of norm blocks
  tensors,      // the beginnings of logical tensors, each of which one replica owns whole
};

struct ShardUnit {
  Region weights;                  // its region of the weight arena
  std::size_t grads = 0;           // its first element in the gradient arena, where it has the same length
  std::vector<std::int64_t> cuts;  // the first element of each replica's range, counted in the unit, and the unit's length
  std::size_t block = 0;           // index in ParameterLayout::blocks; for vectors: any block of the chunk
  int chunk = 0;
  // True for small tensors: vectors and tables of positions. Every replica keeps and sums all of them, but only
  // the owner steps them.
  bool vectors = false;
  // True for the second accumulator of a tied table that the stage stores once: it has the cuts and the weights of the table.
  bool tied_copy = false;

  Region run(int replica) const {
    const auto at = static_cast<std::size_t>(replica);
    return {static_cast<std::size_t>(cuts[at]), static_cast<std::size_t>(cuts[at + 1])};
  }
};

// Every element of the layout's gradient arena belongs to one unit, in its order. Over all units together, the
// ranges of all replicas have equal length up to about a norm block, or up to about a tensor. The cuts of a token table depend
// on the table alone, since another stage may hold it too and must cut it alike. Pure.
std::vector<ShardUnit> shard_units(const ParameterLayout& layout, int replicas, ShardCuts cuts = ShardCuts::norm_blocks);

// A range of one parameter's local slice, dense, beginning at a norm block.
struct HeldPart {
  std::size_t parameter = 0;       // in ParameterLayout::parameters
  std::size_t begin = 0, end = 0;  // elements of the slice
  std::size_t unit = 0;
  std::size_t size() const { return end - begin; }
};

// Returns the parts of the tensors that this replica owns: in the layout's order of parameters, none empty. Pure.
std::vector<HeldPart> held_parts(const ParameterLayout& layout, const std::vector<ShardUnit>& units, int replica);
// Returns all parameters of the layout, whole, for a rank whose replicas divide nothing; they belong to no unit.
std::vector<HeldPart> whole_parameters(const ParameterLayout& layout);

}  // namespace pipetrain
