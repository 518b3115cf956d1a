// The modules with adapters among those that are stacked into one matrix: which of the matrix's rows, and of the adapters'
// stacked matrices (see LowRankAdapter and ExpertAdapter), belong to each. Of experts' matrices one expert's are described.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/blocks/block_compute.hpp"
#include "model/blocks/dropout_site.hpp"

namespace pipetrain {

struct AdapterTarget {
  TensorRole role;                    // of its second matrix
  std::int64_t row = 0, rows = 0;     // its rows of the stacked matrix
  std::int64_t column = 0, rank = 0;  // its columns of B, and rows of A
  float scale = 1;
  DropoutSite dropout;
  BoundTensor out = {};
};

struct AdapterTargets {
  TensorRole in_role = TensorRole::qkv_adapter_in;
  std::vector<AdapterTarget> all = {};
  std::int64_t rows = 0, rank = 0;  // N of the matrix on this rank, and R, the sum of the modules' ranks
  std::int64_t first_column = 0;    // of this rank's inputs, counted in the module's

  // True where one module has all rows, so that its second matrix is B.
  bool is_single() const { return all.size() == 1 && all.front().rows == rows; }
  void bind(const BoundTensors& tensors);
  // Returns a target's columns of `low` [.., R], in `memory` unless they are all of it.
  Tensor columns_of(const BlockContext& context, const Tensor& low, const AdapterTarget& target, Arena& memory) const;
  // Multiplies each target's columns of `low` by its scale.
  void scale(const BlockContext& context, const Tensor& low) const;
};

// Returns nothing if no module of the matrix has an adapter.
std::optional<AdapterTargets> find_adapter_targets(const ModelConfig& config, const Block& block, TensorRole matrix,
                                                   const TensorParallel& tp);

}  // namespace pipetrain
