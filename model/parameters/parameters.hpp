// The layout of a stage's parameters on one rank. Weights, gradients and optimizer states are flat fp32 arenas;
// the logical tensors keep their Hugging Face names and say which slice of the full tensor they hold, so that
// saving, loading and norms do not depend on the layout.
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

// One logical tensor, or the slice of it that this rank holds, in the stage's arenas. A slice of rows or of columns is stored
// dense. A rank may hold several slices of one tensor (as of GPT-2's joint query, key and value).
struct Parameter {
  std::string name;  // "model.layers.3.self_attn.q_proj.weight"
  TensorRole role = TensorRole::norm_weight;
  Shape full;               // shape of the logical tensor, as Hugging Face has it
  Shape local;              // shape of the slice held here, as the operations use it
  bool transposed = false;  // local's rows are columns of full
  int split_axis = -1;      // axis of full. -1: every tensor-parallel rank holds all of it; 0: rows; 1: columns
  std::int64_t begin = 0;   // the slice's first index along split_axis
  // `copies` neighbouring ranks hold this slice, and `copy` is this rank's number among them. Each computes a part of the
  // slice's gradient. Only copy 0 counts for norms, counts and checkpoints.
  int copy = 0, copies = 1;
  std::size_t offset = 0;       // first element, in the weight arena
  std::size_t grad_offset = 0;  // first element, in the gradient arena
  int chunk = 0;                // of this stage
  Initialisation initialisation = Initialisation::normal;
  bool decays = true;  // true when weight decay applies
  ParameterGroup group = ParameterGroup::dense;
  std::int64_t expert = -1;  // see TensorSpec
  // True for the use of the embedding's weight by the model's last part (TensorSpec), which has the embedding's name, so that
  // it loads the same values. Only the embedding's own parameter is counted, saved and included in norms.
  bool tied_copy = false;
};

// A matrix or vector as the operations use it: the logical tensors of one role stacked by rows (q, k, v; gate,
// up). Starts at a multiple of tensor_alignment, in a 16-bit arena of the same offsets too. The embedding's
// table and the output matrix get rows of zeros, up to a multiple of 8, so that rows of logits are aligned:
// with 50,257 columns products are several times slower than with 50,264. From 1,024 rows on they are padded to
// a multiple of 128 if their number is not a multiple of 8: with 50,304 products are another tenth faster.
// Weights and moments must be zero wherever no parameter is.
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

  // Returns the tensor of this role, or null.
  const StoredTensor* find(TensorRole role) const;
};

// The layout of all parameters of a rank, or of one group (parameter_groups.hpp), in arenas of their own.
struct ParameterLayout {
  std::vector<BlockParameters> blocks;  // in model order
  std::vector<Parameter> parameters;    // in model order; a block's in the order above
  std::size_t weight_elements = 0;      // length of the weight and of each optimizer-state arena
  std::size_t grad_elements = 0;        // length of the gradient arena, which is larger if this stage holds both ends of a tie
  std::vector<Region> chunk_grads;      // by chunk: its region of the gradient arena, contiguous
  // By chunk, inside its region: the gradients of parameters that all tensor-parallel ranks replicate (GradientKind),
  // contiguous. The shared ones come first and have a region of their own.
  std::vector<Region> replicated_grads, shared_grads;
  // By chunk, inside its region: the gradients to which operations other than matrix products add (those of vectors and of
  // tables), contiguous. A step begins with zeros there; its first microbatch overwrites the others.
  std::vector<Region> zeroed_grads;

  // Returns the gradients of a chunk that each tensor-parallel rank computes only in part. Under sequence parallelism these
  // are the replicated ones, of which each rank has the part of its own tokens; otherwise they are the shared ones, of which
  // each rank has the part of its own heads.
  Region partial_grads(int chunk, bool sequence_parallel) const {
    const auto at = static_cast<std::size_t>(chunk);
    return sequence_parallel ? replicated_grads[at] : shared_grads[at];
  }
};

// True when a model can be split over this many tensor-parallel ranks: its heads and its MLP's columns divide evenly, and each
// rank has whole key-value heads, or each key-value head goes to equally many ranks.
bool splits_over(const ModelConfig& config, std::int64_t ranks);

// The layout of one rank of a stage that holds these chunks (each a range of blocks). With tied embeddings, a
// stage that holds both ends stores the weight once and has two gradient accumulators; two stages each store
// it. experts: those that the rank holds, in a group of their own if they are not all. Throws Error(input) if heads, key-value
// heads or the intermediate size cannot be split over `tp_size`, or the experts over experts.size, naming the sizes that work.
ParameterLayout layout_parameters(const ModelConfig& config, const std::vector<std::vector<Block>>& chunks, int tp_rank,
                                  int tp_size, const ExpertPart& experts = {});

// Cuts the model's blocks into `parts` ranges in order, each with at least one attention or MLP block, so that the costliest
// range costs as little as possible; embedding and head count and stay at the ends. Throws Error(input) if there are fewer
// blocks than parts. sequence: tokens a sample, for attention's cost. numerics and slices (of each microbatch): the cost
// includes what the backward computes again, such as the head of slices.
std::vector<std::vector<Block>> partition_blocks(const ModelConfig& config, int parts, std::int64_t sequence,
                                                 const Numerics& numerics = {}, int slices = 1);

}  // namespace pipetrain
