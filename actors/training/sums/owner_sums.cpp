#include "actors/training/sums/owner_sums.hpp"

#include <algorithm>
#include <utility>

namespace pipetrain {
namespace {

bool overlap(const Tensor& a, const Tensor& b) {
  const auto *first = a.as<float>(), *second = b.as<float>();
  return first < second + b.elements() && second < first + a.elements();
}

}  // namespace

OwnerSums::OwnerSums(Device& device, std::shared_ptr<Group> replicas, std::vector<Unit> units)
    : replicas_(std::move(replicas)), units_(std::move(units)), opened_(units_.size(), 0), on_its_way_(units_.size(), false) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    auto& neighbours = neighbours_.emplace_back();
    summed_.push_back(units_[i].shares_memory ? device.make_event() : nullptr);
    for (std::size_t other = 0; other < units_.size(); ++other) {
      if (other != i && units_[i].shares_memory && overlap(units_[i].sums, units_[other].sums)) neighbours.push_back(other);
    }
  }
}

void OwnerSums::open(Stream& compute, std::size_t block) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (!units_[i].shares_memory || units_[i].unit.block != block) continue;
    opened_[i] = ++clock_;
    for (const std::size_t other : neighbours_[i]) {
      if (!on_its_way_[other]) continue;
      compute.wait(*summed_[other]);
      on_its_way_[other] = false;
    }
  }
}

void OwnerSums::sum(Stream& transfer, const Tensor& part) {
  std::size_t latest = units_.size();
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (!overlap(units_[i].sums, part)) continue;
    const std::int64_t begin = part.as<float>() - units_[i].sums.as<float>(), end = begin + part.elements();
    if (!units_[i].shares_memory) {
      sum_in(transfer, units_[i], std::max<std::int64_t>(begin, 0), std::min(end, units_[i].sums.elements()));
    } else if (latest == units_.size() || opened_[i] > opened_[latest]) {
      latest = i;
    }
  }
  if (latest == units_.size()) return;
  const std::int64_t begin = part.as<float>() - units_[latest].sums.as<float>();
  sum_in(transfer, units_[latest], begin, begin + part.elements());
  transfer.record(*summed_[latest]);
  on_its_way_[latest] = true;
}

void OwnerSums::sum_in(Stream& transfer, const Unit& unit, std::int64_t begin, std::int64_t end) {
  const Tensor part = unit.sums.row_range(begin, end);
  if (unit.unit.vectors) return replicas_->all_reduce(transfer, part, Reduction::sum);
  std::vector<std::int64_t> cuts;
  for (const std::int64_t cut : unit.unit.cuts) cuts.push_back(std::clamp<std::int64_t>(cut - begin, 0, end - begin));
  const RowSplit rows(cuts);
  const int rank = replicas_->rank();
  const std::int64_t first = begin + rows.begin(rank) - unit.unit.cuts[static_cast<std::size_t>(rank)];  // in the own range
  const std::int64_t count = rows.count(rank);
  const Tensor own = count > 0 ? unit.own.row_range(first, first + count) : unit.own.row_range(0, 0);
  replicas_->reduce_scatter(transfer, part, own, rows);
}

}  // namespace pipetrain
