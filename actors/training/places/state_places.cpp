#include "actors/training/places/state_places.hpp"

#include <algorithm>
#include <iterator>

#include "core/buffer.hpp"
#include "model/parameters/arena_views.hpp"

namespace pipetrain {

bool offloads_masters(const Offload& offload, const Precision& precision) {
  return offload.optimizer && precision.rounds_weights();
}

bool offloads_weights(const Offload& offload, const Precision& precision) {
  return offloads_masters(offload, precision) || (offload.parameters && !precision.rounds_weights());
}

ReplicaPlace place_among(const Zero& zero, const OptimizerSettings& optimizer, int replicas, int replica) {
  if (!zero.divides_states()) return {};
  const bool whole = make_optimizer(optimizer)->granularity() == Granularity::matrix;
  return {replicas, replica, whole ? ShardCuts::tensors : ShardCuts::norm_blocks};
}

StatePlaces::StatePlaces(const ParameterLayout& layout, const Setup& setup)
    : layout_(layout),
      setup_(setup),
      rounds_(setup.precision.rounds_weights()),
      weights_sharded_(gathers_weights() || (is_sharded() && rounds_)),
      units_(setup.place.units(layout)),
      held_(held_parts(layout, units_, setup.place.replica)) {
  for (const ShardUnit& unit : units_) {
    shard_begins_.push_back(shard_);
    if (!unit.tied_copy) shard_ += align_elements(run(unit).size());
  }
  // A tied weight is stored once, under the embedding's parameter.
  std::erase_if(held_, [this](const HeldPart& part) { return units_[part.unit].tied_copy; });
  place_gradients();
}

void StatePlaces::place_gradients() {
  pool_.begins.resize(units_.size());
  grads_ = layout_.grad_elements;
  if (setup_.offload.gradients) {
    pool_ = gradient_slots(layout_, units_);
  } else if (is_sharded() && setup_.zero.divides_grads() && !setup_.actions.empty()) {
    pool_ = pool_gradients(layout_, units_, setup_.place.replicas, setup_.actions);
  }
  if (pool_.is_empty()) return;
  grads_ = 0;
  for (std::size_t chunk = 0; chunk < layout_.chunk_grads.size(); ++chunk) {
    chunk_begins_.push_back(grads_);
    grads_ += layout_.zeroed_grads[chunk].end - layout_.chunk_grads[chunk].begin;
  }
  constexpr std::size_t page = OffloadStorage::granularity / sizeof(float);
  if (setup_.offload.gradients) grads_ = (grads_ + page - 1) / page * page;
  pool_begin_ = grads_;
  grads_ += pool_.length;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    own_sum_begins_.push_back(grads_);
    if (sums_apart(i)) grads_ += align_elements(run(units_[i]).size());
  }
}

std::size_t StatePlaces::rounded() const {
  if (!rounds_ && !setup_.previews) return 0;
  return gathers_weights() ? shard_ : layout_.weight_elements;
}

std::vector<Region> StatePlaces::shard_ranges() const {
  std::vector<Region> runs;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const std::size_t elements = units_[i].tied_copy ? 0 : run(units_[i]).size();
    runs.push_back({shard_begins_[i], shard_begins_[i] + elements});
  }
  return runs;
}

std::size_t StatePlaces::shard_at(std::size_t unit, std::size_t offset) const {
  return shard_begins_[unit] + offset - units_[unit].weights.begin - run(units_[unit]).begin;
}

std::size_t StatePlaces::unit_of_grad(std::size_t grad_offset) const {
  const auto after = std::upper_bound(units_.begin(), units_.end(), grad_offset,
                                      [](std::size_t at, const ShardUnit& unit) { return at < unit.grads; });
  return static_cast<std::size_t>(std::prev(after) - units_.begin());
}

// Maps a region of the chunk's part of the layout's arena to this rank's arena.
Region StatePlaces::moved(const Region& region, int chunk) const {
  if (!pools()) return region;
  const auto at = static_cast<std::size_t>(chunk);
  const std::size_t begin = chunk_begins_[at] + region.begin - layout_.chunk_grads[at].begin;
  return {begin, begin + region.size()};
}

Region StatePlaces::sums(std::size_t index) const {
  const ShardUnit& unit = units_[index];
  if (!is_pooled(index)) return moved({unit.grads, unit.grads + unit.weights.size()}, unit.chunk);
  const std::size_t begin = pool_begin_ + *pool_.begins[index];
  return {begin, begin + unit.weights.size()};
}

Region StatePlaces::own_sums(std::size_t index) const {
  const Region own = run(units_[index]);
  const std::size_t begin = sums_apart(index) ? own_sum_begins_[index] : sums(index).begin + own.begin;
  return {begin, begin + own.size()};
}

Region StatePlaces::own_sums(TensorRole role) const {
  const StoredTensor* tensor = find_tensor(layout_, role);
  return tensor == nullptr ? Region{} : own_sums(unit_of_grad(tensor->grad_offset));
}

Region StatePlaces::chunk_grads(int chunk) const {
  const auto at = static_cast<std::size_t>(chunk);
  const Region all = layout_.chunk_grads[at];
  return pools() ? moved({all.begin, layout_.zeroed_grads[at].end}, chunk) : all;
}

Region StatePlaces::partial_grads(int chunk, bool sequence_parallel) const {
  return moved(layout_.partial_grads(chunk, sequence_parallel), chunk);
}

GradientPlaces StatePlaces::gradient_places(const Tensor& arena) const {
  GradientPlaces places;
  for (const BlockParameters& block : layout_.blocks) {
    auto& tensors = places.blocks.emplace_back();
    for (const StoredTensor& tensor : block.tensors) {
      const std::size_t unit = unit_of_grad(tensor.grad_offset);
      const std::size_t begin = sums(unit).begin + tensor.grad_offset - units_[unit].grads;
      tensors.push_back(span(arena, begin, static_cast<std::size_t>(tensor.shape.elements())).reshaped(tensor.shape));
    }
  }
  for (std::size_t chunk = 0; chunk < layout_.zeroed_grads.size(); ++chunk) {
    const Region region = moved(layout_.zeroed_grads[chunk], static_cast<int>(chunk));
    places.zeroed.push_back({span(arena, region.begin, region.size())});
  }
  return places;
}

std::vector<std::vector<OptimizerPart>> StatePlaces::optimizer_parts() const {
  std::vector<std::vector<OptimizerPart>> parts(units_.size());
  for (const OptimizerPart& whole : whole_parts(layout_)) {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const ShardUnit& unit = units_[i];
      const Region own{unit.weights.begin + run(unit).begin, unit.weights.begin + run(unit).end};
      const std::size_t begin = std::max(whole.weight, own.begin), end = std::min(whole.weight + whole.elements, own.end);
      if (unit.tied_copy || begin >= end) continue;
      OptimizerPart part = whole;
      part.elements = end - begin;
      part.grad = own_sums(i).begin + begin - own.begin;
      part.weight = weights_sharded_ ? shard_at(i, begin) : begin;
      part.state = is_sharded() ? shard_at(i, begin) : begin;
      part.rounded = gathers_weights() ? shard_at(i, begin) : begin;
      parts[i].push_back(part);
    }
  }
  return parts;
}

std::vector<std::vector<HeldPlace>> StatePlaces::held_places() const {
  std::vector<std::vector<HeldPlace>> places(units_.size());
  for (const HeldPart& part : held_) {
    const Parameter& parameter = layout_.parameters[part.parameter];
    places[part.unit].push_back({.part = part,
                                 .weight = weight_at(part),
                                 .grad = own_sum_at(parameter.grad_offset + part.begin, part.unit),
                                 .state = state_at(part),
                                 .rounded = rounded_at(part)});
  }
  return places;
}

std::vector<CountedPart> StatePlaces::counted(int tp_rank) const {
  std::vector<CountedPart> parts = counted_parts(layout_, tp_rank, held_);
  for (CountedPart& part : parts) {
    part.grads = own_sum_at(part.grads, unit_of_grad(layout_.parameters[part.parameter].grad_offset));
  }
  return parts;
}

std::size_t StatePlaces::own_sum_at(std::size_t grad_offset, std::size_t unit) const {
  return own_sums(unit).begin + grad_offset - units_[unit].grads - run(units_[unit]).begin;
}

std::vector<CopiedPart> StatePlaces::copied(int chunk, const Tensor& arena, const TensorParallel& tp) const {
  std::vector<CopiedPart> parts;
  for (const HeldPart& part : held_) {
    const Parameter& parameter = layout_.parameters[part.parameter];
    if (parameter.copies == 1 || parameter.chunk != chunk) continue;
    const std::size_t begin = own_sum_at(parameter.grad_offset + part.begin, unit_of_grad(parameter.grad_offset));
    parts.push_back(copied_part(parameter, span(arena, begin, part.size()), tp));
  }
  return parts;
}

}  // namespace pipetrain
