#include "model/block_plan.hpp"

#include <cassert>

#include "core/process_group.hpp"
#include "model/families/family.hpp"

namespace pipetrain {

Parameter BlockPlanner::whole(const std::string& name, const Shape& full) {
  Parameter slice;
  slice.name = name;
  slice.full = slice.local = full;
  slice.decays = full.rank() > 1;
  return slice;
}

Parameter BlockPlanner::part(const std::string& name, const Shape& full, int axis, std::int64_t begin,
                             std::int64_t size) const {
  const RowSplit split(size, size_);
  Parameter slice = whole(name, full);
  slice.local = full.with(axis, split.count(rank_));
  if (slice.local == full) return slice;
  slice.split_axis = axis;
  slice.begin = begin + split.begin(rank_);
  return slice;
}

void BlockPlanner::store(GradientKind gradient, const std::vector<Parameter>& slices) {
  std::int64_t all_rows = 0;
  for (const Parameter& slice : slices) all_rows += slice.local[0];
  for (const Parameter& slice : slices) plan_.pieces.push_back({slice, plan_.stored.size()});
  plan_.stored.push_back({slices.front().local.with(0, all_rows), gradient});
}

void BlockPlanner::store_vocabulary(GradientKind gradient, const Parameter& slice) {
  constexpr std::int64_t multiple = 8;  // 16 bytes of bf16
  store(gradient, {slice});
  Shape& shape = plan_.stored.back().shape;
  shape = shape.with(0, (shape[0] + multiple - 1) / multiple * multiple);
}

Parameter transposed(Parameter slice) {
  assert(slice.local.rank() == 2 && !slice.transposed);
  slice.transposed = true;
  slice.local = {slice.local[1], slice.local[0]};
  return slice;
}

void plan_output_matrix(const ModelConfig& config, BlockPlanner& planner) {
  const FamilyNames names = names_of(config.family);
  Parameter output = planner.rows(config.tied_embeddings ? names.embedding : names.head, {config.vocabulary, config.hidden});
  output.tied_copy = config.tied_embeddings;
  planner.store_vocabulary(GradientKind::product, output);
}

}  // namespace pipetrain
