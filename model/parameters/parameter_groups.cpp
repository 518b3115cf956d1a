#include "model/parameters/parameter_groups.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "model/parameters/arena_views.hpp"
#include "model/parameters/block_plan.hpp"

namespace pipetrain {
namespace {

// The region of the whole layout in which a tensor's gradient lies determines how the gradient is computed.
GradientKind kind_of_gradient(const ParameterLayout& whole, const StoredTensor& tensor, int chunk) {
  const auto at = static_cast<std::size_t>(chunk);
  if (tensor.grad_offset < whole.shared_grads[at].end) return GradientKind::shared;
  if (tensor.grad_offset < whole.replicated_grads[at].end) return GradientKind::replicated;
  return tensor.grad_offset < whole.zeroed_grads[at].end ? GradientKind::summed : GradientKind::product;
}

// Gives the tensors of one group offsets in arenas of their own, in the order of layout_parameters().
class GroupPlacer {
 public:
  GroupPlacer(const ParameterLayout& whole, ParameterGroup group) : whole_(whole) {
    placed_.group = group;
    for (const BlockParameters& block : whole.blocks) {
      BlockParameters& own = placed_.layout.blocks.emplace_back(block);
      std::erase_if(own.tensors, [group](const StoredTensor& tensor) { return tensor.group != group; });
    }
  }

  GroupLayout place() && {
    for (std::size_t chunk = 0; chunk < whole_.chunk_grads.size(); ++chunk) place_chunk(static_cast<int>(chunk));
    list_parameters();
    return std::move(placed_);
  }

 private:
  struct Move {
    StoredTensor from, to;
  };

  void place_chunk(int chunk) {
    ParameterLayout& layout = placed_.layout;
    const std::size_t begin = layout.grad_elements;
    const auto place_all = [&](GradientKind kind) {
      for (BlockParameters& block : layout.blocks) {
        if (block.chunk == chunk) place_block(block, kind);
      }
      return Region{begin, layout.grad_elements};
    };
    layout.shared_grads.push_back(place_all(GradientKind::shared));
    layout.replicated_grads.push_back(place_all(GradientKind::replicated));
    layout.zeroed_grads.push_back(place_all(GradientKind::summed));
    layout.chunk_grads.push_back(place_all(GradientKind::product));
  }

  void place_block(BlockParameters& block, GradientKind kind) {
    const BlockParameters& whole = whole_.blocks[static_cast<std::size_t>(&block - placed_.layout.blocks.data())];
    for (StoredTensor& tensor : block.tensors) {
      const StoredTensor& from = *whole.find(tensor.role);
      if (kind_of_gradient(whole_, from, block.chunk) == kind) place_tensor(from, tensor);
    }
  }

  void place_tensor(const StoredTensor& from, StoredTensor& tensor) {
    ParameterLayout& layout = placed_.layout;
    const std::size_t elements = align_elements(static_cast<std::size_t>(tensor.shape.elements()));
    const bool has_gradient = is_trained(placed_.group);
    tensor.grad_offset = has_gradient ? layout.grad_elements : 0;
    if (has_gradient) layout.grad_elements += elements;
    const auto [shared, is_new] = weight_offsets_.emplace(from.offset, layout.weight_elements);  // a tied table is stored once
    tensor.offset = shared->second;
    if (is_new) layout.weight_elements += elements;
    moves_[from.grad_offset] = {from, tensor};
  }

  void list_parameters() {
    for (std::size_t i = 0; i < whole_.parameters.size(); ++i) {
      if (whole_.parameters[i].group != placed_.group) continue;
      Parameter parameter = whole_.parameters[i];
      const Move& move = std::prev(moves_.upper_bound(parameter.grad_offset))->second;
      if (is_trained(placed_.group)) {
        parameter.grad_offset = move.to.grad_offset + parameter.grad_offset - move.from.grad_offset;
      } else {
        parameter.grad_offset = 0;
      }
      parameter.offset = move.to.offset + parameter.offset - move.from.offset;
      placed_.layout.parameters.push_back(std::move(parameter));
      placed_.parameters.push_back(i);
    }
  }

  const ParameterLayout& whole_;
  GroupLayout placed_;
  std::map<std::size_t, Move> moves_;                  // by the gradient's offset in the whole layout
  std::map<std::size_t, std::size_t> weight_offsets_;  // from offsets in the whole layout to those in the group's
};

}  // namespace

std::optional<std::size_t> GroupLayout::index_of(std::size_t whole) const {
  const auto found = std::lower_bound(parameters.begin(), parameters.end(), whole);
  if (found == parameters.end() || *found != whole) return {};
  return static_cast<std::size_t>(found - parameters.begin());
}

std::vector<GroupLayout> group_layouts(const ParameterLayout& whole) {
  std::vector<GroupLayout> groups;
  for (const ParameterGroup group : parameter_groups) {
    const bool is_used = std::any_of(whole.blocks.begin(), whole.blocks.end(), [&](const BlockParameters& block) {
      return std::any_of(block.tensors.begin(), block.tensors.end(),
                         [&](const StoredTensor& tensor) { return tensor.group == group; });
    });
    if (is_used) groups.push_back(GroupPlacer(whole, group).place());
  }
  return groups;
}

}  // namespace pipetrain
