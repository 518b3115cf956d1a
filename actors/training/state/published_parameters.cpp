#include "actors/training/state/published_parameters.hpp"

#include <utility>

#include "actors/training/state/coded_units.hpp"

namespace pipetrain {
namespace {

// Returns the units that contain a block's weights.
std::vector<std::size_t> units_of(const BlockParameters& block, const std::vector<ShardUnit>& units) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < units.size(); ++i) {
    for (const StoredTensor& tensor : block.tensors) {
      const Region& weights = units[i].weights;
      if (units[i].tied_copy || tensor.offset < weights.begin || tensor.offset >= weights.end) continue;
      found.push_back(i);
      break;
    }
  }
  return found;
}

}  // namespace

PublishedParameters::PublishedParameters(const Setup& setup, const Replicas& replicas, const Tensor& weights)
    : setup_(setup),
      replicas_(replicas),
      weights_(weights),
      views_(weight_views(setup.layout, weights)),
      stepped_(setup.device.make_event()),
      on_its_way_(setup.units.size(), false) {
  for (const BlockParameters& block : setup.layout.blocks) units_of_.push_back(units_of(block, setup.units));
  for (std::size_t i = 0; i < setup.units.size(); ++i) gathered_.push_back(setup.device.make_event());
}

void PublishedParameters::publish(std::size_t index) {
  const ShardUnit& unit = setup_.units[index];
  if (unit.tied_copy) return;
  setup_.compute.record(*stepped_);
  replicas_.transfer.wait(*stepped_);
  const Region own = unit.run(replicas_.group.rank());
  const auto begin = static_cast<std::int64_t>(unit.weights.begin), end = static_cast<std::int64_t>(unit.weights.end);
  const Tensor shard =
      weights_.row_range(begin + static_cast<std::int64_t>(own.begin), begin + static_cast<std::int64_t>(own.end));
  if (replicas_.coded != nullptr && CodedUnits::codes(unit)) {
    replicas_.coded->gather(replicas_.transfer, shard, weights_.row_range(begin, end), index);
  } else {
    replicas_.group.all_gather(replicas_.transfer, shard, weights_.row_range(begin, end), RowSplit(unit.cuts));
  }
  replicas_.transfer.record(*gathered_[index]);
  on_its_way_[index] = true;
}

// Loading does not publish, because a replica that fails to load would keep the others waiting.
void PublishedParameters::begin_step(schedules::StepKind) {
  if (!std::exchange(unpublished_, false)) return;
  for (std::size_t unit = 0; unit < setup_.units.size(); ++unit) publish(unit);
}

void PublishedParameters::wait_for(std::size_t unit) {
  if (!on_its_way_[unit]) return;
  setup_.compute.wait(*gathered_[unit]);
  on_its_way_[unit] = false;
}

Tensor PublishedParameters::settled() {
  for (std::size_t unit = 0; unit < setup_.units.size(); ++unit) wait_for(unit);
  return weights_;
}

const std::vector<Tensor>& PublishedParameters::acquire(std::size_t block) {
  for (const std::size_t unit : units_of_[block]) wait_for(unit);
  return views_[block];
}

}  // namespace pipetrain
