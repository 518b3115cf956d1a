// What one tensor-parallel rank holds of one block, before it has a place in the stage's arenas: which slices of which logical
// tensors, and how they are stacked into the tensors that the operations use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/config.hpp"
#include "model/parameters.hpp"

namespace pipetrain {

// How a stored tensor's gradient comes about.
enum class GradientKind {
  replicated,  // every rank holds all of it; under sequence parallelism each has the part of its own tokens
  summed,      // this rank's slice, which other operations than matrix products add to
  product,     // this rank's slice of a matrix, by Ops::weight_grad
};

struct StoredPlan {
  Shape shape;
  GradientKind gradient = GradientKind::product;
};

// One slice, and which stored tensor of its block it is stacked into.
struct Piece {
  Parameter parameter;
  std::size_t stored = 0;
};

struct BlockPlan {
  std::vector<StoredPlan> stored;
  std::vector<Piece> pieces;  // stacked by rows inside a stored tensor, in this order
};

// Makes slices for one rank, and collects them. What decays is what has two or more dimensions.
class BlockPlanner {
 public:
  BlockPlanner(int tp_rank, int tp_size) : rank_(tp_rank), size_(tp_size) {}

  // All of the tensor, on every rank.
  static Parameter whole(const std::string& name, const Shape& full);
  // This rank's share of the positions [begin, begin + size) of the tensor's `axis`.
  Parameter part(const std::string& name, const Shape& full, int axis, std::int64_t begin, std::int64_t size) const;
  // This rank's share of a matrix's rows, or columns.
  Parameter rows(const std::string& name, const Shape& full) const { return part(name, full, 0, 0, full[0]); }
  Parameter columns(const std::string& name, const Shape& full) const { return part(name, full, 1, 0, full[1]); }

  // Stores the slices as one tensor, stacked by rows.
  void store(GradientKind gradient, const std::vector<Parameter>& slices);
  // Stores the slice of a matrix with a row for each word, and rows of zeros: StoredTensor.
  void store_vocabulary(GradientKind gradient, const Parameter& slice);
  BlockPlan take() { return std::move(plan_); }

 private:
  int rank_, size_;
  BlockPlan plan_;
};

// The slice with rows and columns exchanged: of a matrix that its file keeps as [inputs, outputs].
Parameter transposed(Parameter slice);

// The head's matrix, which may be the embedding's.
void plan_output_matrix(const ModelConfig& config, BlockPlanner& planner);
// The tensors of a family's block, in the order in which its layers bind them: BlockParameters says which.
void plan_llama_block(const ModelConfig& config, const Block& block, BlockPlanner& planner);
void plan_gpt2_block(const ModelConfig& config, const Block& block, BlockPlanner& planner);

}  // namespace pipetrain
