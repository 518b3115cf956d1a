// Where every parameter of a stage lives on one rank. Weights, gradients and optimizer state are flat fp32 arenas with the same
// offsets; the logical tensors keep their Hugging Face names and say which slice of the full tensor they hold, so that saving,
// loading and norms do not depend on the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "model/config/block.hpp"
#include "model/config/config.hpp"
#include "model/config/numerics.hpp"
#include "model/config/tensor_spec.hpp"

namespace pipetrain {

// One logical tensor, or a slice of it that this rank holds, in the stage's arenas. A slice of rows or of columns is stored
// dense. A rank may hold several slices of one tensor (of GPT-2's query, key and value in one).
struct Parameter {
  std::string name;  // "model.layers.3.self_attn.q_proj.weight"
  TensorRole role = TensorRole::norm_weight;
  Shape full;               // of the logical tensor, as Hugging Face has it
  Shape local;              // of the slice held here, as the operations use it
  bool transposed = false;  // local's rows are columns of full
  int split_axis = -1;      // of full. -1: every tensor-parallel rank holds all of it; 0: rows; 1: columns
  std::int64_t begin = 0;   // of the slice, along split_axis
  // Of a slice that as many neighbouring ranks hold: the rank's number among them. Each of these ranks computes a share of its
  // gradient. Counted, saved and put in norms only as copy 0.
  int copy = 0, copies = 1;
  std::size_t offset = 0;       // first element, in the weight arena
  std::size_t grad_offset = 0;  // first element, in the gradient arena
  int chunk = 0;                // of the stage
  Initialisation initialisation = Initialisation::normal;
  bool decays = true;  // weight decay
  ParameterGroup group = ParameterGroup::dense;
  // The head's use of the embedding's weight, under the embedding's name, so that it loads the same values. Counted, saved and
  // put in norms only as the embedding's own.
  bool tied_copy = false;
};

// A matrix or vector as the operations use it: the logical tensors of one role stacked by rows (q, k, v; gate, up). Starts at
// a multiple of tensor_alignment, also in a 16-bit arena of the same offsets. The embedding's table and the output matrix have
// rows of zeros added, up to a multiple of 8, so that rows of logits are aligned: with 50,257 columns products are several
// times slower than with 50,264. Where they are many and no such multiple, up to one of 128: with 50,304 they are faster by
// another tenth. Weights and moments are to be zero wherever no parameter is.
struct StoredTensor {
  TensorRole role;
  Shape shape;
  std::size_t offset = 0;       // elements, in the weight arena
  std::size_t grad_offset = 0;  // elements, in the gradient arena
  ParameterGroup group = ParameterGroup::dense;
};

struct Region {
  std::size_t begin = 0, end = 0;  // elements
  std::size_t size() const { return end - begin; }
};

struct BlockParameters {
  Block block;
  int chunk = 0;
  std::vector<StoredTensor> tensors;  // in the family's order, each role once

  // The tensor of this role, or null.
  const StoredTensor* find(TensorRole role) const;
};

// The layout of all parameters of a rank, or of one group (parameter_groups.hpp), in arenas of their own.
struct ParameterLayout {
  std::vector<BlockParameters> blocks;  // in model order
  std::vector<Parameter> parameters;    // in model order; a block's in the order above
  std::size_t weight_elements = 0;      // length of the weight and of each optimizer-state arena
  std::size_t grad_elements = 0;        // of the gradient arena: more when this stage holds both ends of a tie
  std::vector<Region> chunk_grads;      // per chunk: its part of the gradient arena, contiguous
  // Per chunk, inside its region: the gradients of parameters that all tensor-parallel ranks replicate (GradientKind),
  // contiguous; and those of them that are shared, which come first.
  std::vector<Region> replicated_grads, shared_grads;
  // Per chunk, inside its region: the gradients that other operations than matrix products add to (those of vectors and of
  // tables), contiguous. A step begins with zeros there; the others are written over by its first microbatch.
  std::vector<Region> zeroed_grads;

  // The gradients of a chunk of which each tensor-parallel rank computes a part: of what is replicated, under sequence
  // parallelism each has that of its own tokens; of what is shared, that of its own heads.
  Region partial_grads(int chunk, bool sequence_parallel) const {
    const auto at = static_cast<std::size_t>(chunk);
    return sequence_parallel ? replicated_grads[at] : shared_grads[at];
  }
};

// Whether a model's heads and columns can be split over so many tensor-parallel ranks: its heads and its MLP's columns evenly,
// and each key-value head goes to one rank or to as many as every other.
bool splits_over(const ModelConfig& config, std::int64_t ranks);

// The layout of one rank of a stage that holds these chunks (each a run of blocks). With tied embeddings, a stage that holds
// both ends stores the weight once and has two gradient accumulators; two stages each store it. Throws Error(input) when heads,
// key-value heads or the intermediate size cannot be split over `tp_size`, naming the sizes that work.
ParameterLayout layout_parameters(const ModelConfig& config, const std::vector<std::vector<Block>>& chunks, int tp_rank,
                                  int tp_size);

// Cuts the model's blocks into `parts` runs in order, none empty of attention or MLP blocks, so that the costliest run costs
// as little as possible; embedding and head count and stay at the ends. Throws Error(input) when there are fewer blocks than
// parts. sequence: tokens a sample, for attention's cost. numerics and slices (of each microbatch): what the backward computes
// again counts too, as the head of slices does.
std::vector<std::vector<Block>> partition_blocks(const ModelConfig& config, int parts, std::int64_t sequence,
                                                 const Numerics& numerics = {}, int slices = 1);

}  // namespace pipetrain
