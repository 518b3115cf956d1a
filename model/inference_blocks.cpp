#include "model/inference_blocks.hpp"

#include <cassert>
#include <utility>

#include "model/make_block.hpp"
#include "model/parameters/parameter_groups.hpp"
#include "model/parameters/parameter_store.hpp"

namespace pipetrain {
namespace {

Tensor view_of(const StoredTensor& tensor, const Tensor& arena) {
  char* const data = static_cast<char*>(arena.data);
  return {data == nullptr ? nullptr : data + tensor.offset * size_of(arena.dtype), tensor.shape, arena.dtype};
}

// Returns the layout of what is trained beside frozen weights; one without elements for a model without adapters.
ParameterLayout adapter_layout(const ParameterLayout& whole) {
  for (GroupLayout& group : group_layouts(whole))
    if (group.group == ParameterGroup::adapter) return std::move(group.layout);
  return {};
}

}  // namespace

InferenceBlocks::InferenceBlocks(const ModelConfig& config, const std::vector<Block>& blocks, const TensorParallel& tp)
    : whole_(layout_parameters(config, {blocks}, tp.rank(), tp.size())), adapter_(adapter_layout(whole_)) {
  for (const BlockParameters& block : whole_.blocks) blocks_.push_back(make_block(config, block, tp));
}

void InferenceBlocks::bind(const ParameterLayout& base, const Tensor& base_weights, const Tensor& own, DType gradient) {
  assert(base.blocks.size() == whole_.blocks.size());
  const auto no_grads = weight_views(whole_, {nullptr, {}, gradient});
  for (std::size_t index = 0; index < blocks_.size(); ++index) {
    std::vector<Tensor> views;
    for (const StoredTensor& tensor : whole_.blocks[index].tensors) {
      const bool is_own = tensor.group == ParameterGroup::adapter;
      const StoredTensor* const found = (is_own ? adapter_ : base).blocks[index].find(tensor.role);
      assert(found != nullptr && found->shape == tensor.shape);
      views.push_back(view_of(*found, is_own ? own : base_weights));
    }
    blocks_[index]->bind({whole_.blocks[index], views, no_grads[index], {}});
  }
}

}  // namespace pipetrain
