#include "actors/training/state/coded_units.hpp"

#include <cstdint>
#include <set>
#include <utility>

namespace pipetrain {
namespace {

// Returns the first elements of the slices in the unit, counted from its beginning.
std::vector<std::int64_t> slices_of(const ParameterLayout& layout, const ShardUnit& unit) {
  std::set<std::int64_t> begins = {0};
  for (const Parameter& parameter : layout.parameters) {
    const bool is_inside = parameter.offset >= unit.weights.begin && parameter.offset < unit.weights.end;
    if (is_inside) begins.insert(static_cast<std::int64_t>(parameter.offset - unit.weights.begin));
  }
  return {begins.begin(), begins.end()};
}

}  // namespace

CodedUnits::CodedUnits(const ParameterLayout& layout, const std::vector<ShardUnit>& units, BlockCode code, Device& device,
                       std::shared_ptr<Group> replicas, const std::string& rank)
    : gather_(device, std::move(replicas), code, rank) {
  for (const ShardUnit& unit : units) blocks_.emplace_back(code, slices_of(layout, unit), unit.cuts);
}

}  // namespace pipetrain
