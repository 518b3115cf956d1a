// The weights and gradient places of several parameter groups, as those of one layout.
#pragma once

#include <cstddef>
#include <vector>

#include "model/parameters/gradient_places.hpp"
#include "model/parameters/parameter_groups.hpp"
#include "model/parameters/parameter_store.hpp"

namespace pipetrain {

// Gives blocks their tensors in the order of the whole layout, each from the store of its group.
class GroupedParameters final : public ParameterStore {
 public:
  struct Member {
    const GroupLayout& group;
    ParameterStore& weights;  // the group's weights, in the group's layout
  };
  // Everything outlives it. members: all groups of the layout.
  GroupedParameters(const ParameterLayout& whole, std::vector<Member> members);

  // A group's store is asked only for blocks that have tensors of the group.
  const std::vector<Tensor>& acquire(std::size_t block) override;
  void release(std::size_t block) override;

 private:
  const ParameterLayout& whole_;
  std::vector<Member> members_;
  std::vector<std::vector<Tensor>> views_;  // by block, as last acquired
};

// The gradients of one group, in the order of the group's layout.
struct GroupGradients {
  ParameterGroup group;
  GradientPlaces places;
};
// Arranges them in the order of the whole layout. A tensor whose group is not among them has no place (has_place()).
GradientPlaces grouped_places(const ParameterLayout& whole, const std::vector<GroupGradients>& groups);

}  // namespace pipetrain
