// The modules with adapters among those that are stacked into one matrix: which of the matrix's rows, and of the adapters'
// stacked matrices (see LowRankAdapter and ExpertAdapter), belong to each. Of experts' matrices one expert's are described.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/blocks/block_compute.hpp"
#include "model/blocks/dropout_site.hpp"
#include "model/config/adapter_roles.hpp"
#include "model/parameters/block_plan.hpp"

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
  // Returns nothing where the targets' scales differ.
  std::optional<float> common_scale() const;
  // Multiplies each target's columns of `low` by its scale.
  void scale(const BlockContext& context, const Tensor& low) const;
};

inline void AdapterTargets::bind(const BoundTensors& tensors) {
  for (AdapterTarget& target : all) target.out = tensors.at(target.role);
}

inline Tensor AdapterTargets::columns_of(const BlockContext& context, const Tensor& low, const AdapterTarget& target,
                                         Arena& memory) const {
  if (target.rank == rank) return low;
  const Tensor own = memory.allocate({low.rows(), target.rank}, context.dtype);
  context.ops.copy_columns({.source = low, .source_begin = target.column, .target = own, .count = target.rank});
  return own;
}

inline std::optional<float> AdapterTargets::common_scale() const {
  const float first = all.front().scale;
  const bool is_common = std::all_of(all.begin(), all.end(), [&](const AdapterTarget& one) { return one.scale == first; });
  return is_common ? std::optional(first) : std::nullopt;
}

inline void AdapterTargets::scale(const BlockContext& context, const Tensor& low) const {
  if (const auto common = common_scale()) {
    if (*common != 1) context.ops.scale({.x = low, .out = low, .factor = *common, .exact = true});
    return;
  }
  for (const AdapterTarget& target : all) {
    const ArenaScope scope(context.workspace);
    const Tensor own = columns_of(context, low, target, context.workspace);
    context.ops.scale({.x = own, .out = own, .factor = target.scale, .exact = true});
    context.ops.copy_columns({.source = own, .target = low, .target_begin = target.column, .count = target.rank});
  }
}

// Returns nothing if no module of the matrix has an adapter.
inline std::optional<AdapterTargets> find_adapter_targets(const ModelConfig& config, const Block& block, TensorRole matrix,
                                                          const TensorParallel& tp) {
  const auto roles = adapter_roles(matrix);
  if (!config.adapter.exists() || !roles) return {};
  AdapterTargets found{.in_role = roles->in};
  std::string module;
  std::size_t modules = 0;             // that the matrix has had so far
  std::optional<std::int64_t> expert;  // the first; the others' modules are like its own
  for (const Piece& piece : plan_block(block_tensors(config, block), tp.rank(), tp.size()).pieces) {
    const Parameter& parameter = piece.parameter;
    if (parameter.role == roles->in) found.first_column = parameter.split_axis == 1 ? parameter.begin : 0;
    if (parameter.role != matrix || parameter.expert > expert.value_or(parameter.expert)) continue;
    expert = parameter.expert;
    const std::string own = adapted_module(config.adapter, parameter.name, matrix);
    const bool is_new = module != own;
    module = own;
    modules += is_new ? 1 : 0;
    const std::int64_t rows = parameter.local[0];
    if (const auto adapter = adapter_of(config.adapter, module, block)) {
      if (is_new) {
        found.all.push_back({.role = roles->out[modules - 1],
                             .row = found.rows,
                             .column = found.rank,
                             .rank = adapter->rank,
                             .scale = static_cast<float>(adapter->scale),
                             .dropout = {module + ".lora", config.adapter.dropout}});
        found.rank += adapter->rank;
      }
      found.all.back().rows += rows;
    }
    found.rows += rows;
  }
  return found.all.empty() ? std::nullopt : std::optional(std::move(found));
}

}  // namespace pipetrain
