#include "model/parameters/grouped_parameters.hpp"

#include <utility>

namespace pipetrain {
namespace {

// Puts the tensors of one group at their indices in the whole block.
void put_group(const BlockParameters& whole, ParameterGroup group, const std::vector<Tensor>& own, std::vector<Tensor>& all) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
    if (whole.tensors[i].group == group) all[i] = own[next++];
  }
}

}  // namespace

GroupedParameters::GroupedParameters(const ParameterLayout& whole, std::vector<Member> members)
    : whole_(whole), members_(std::move(members)) {
  for (const BlockParameters& block : whole.blocks) views_.emplace_back(block.tensors.size());
}

const std::vector<Tensor>& GroupedParameters::acquire(std::size_t block) {
  for (const Member& member : members_) {
    if (!member.group.layout.blocks[block].tensors.empty())
      put_group(whole_.blocks[block], member.group.group, member.weights.acquire(block), views_[block]);
  }
  return views_[block];
}

void GroupedParameters::release(std::size_t block) {
  for (const Member& member : members_) {
    if (!member.group.layout.blocks[block].tensors.empty()) member.weights.release(block);
  }
}

GradientPlaces grouped_places(const ParameterLayout& whole, const std::vector<GroupGradients>& groups) {
  GradientPlaces all;
  for (const BlockParameters& block : whole.blocks) all.blocks.emplace_back(block.tensors.size());
  all.zeroed.resize(whole.zeroed_grads.size());
  for (const GroupGradients& one : groups) {
    for (std::size_t block = 0; block < whole.blocks.size(); ++block)
      put_group(whole.blocks[block], one.group, one.places.blocks[block], all.blocks[block]);
    for (std::size_t chunk = 0; chunk < all.zeroed.size(); ++chunk) {
      const auto& own = one.places.zeroed[chunk];
      all.zeroed[chunk].insert(all.zeroed[chunk].end(), own.begin(), own.end());
    }
  }
  return all;
}

}  // namespace pipetrain
