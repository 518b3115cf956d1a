#include "actors/training/state/fetched_runs.hpp"

#include <algorithm>
#include <cstdint>

namespace pipetrain {
namespace {

std::size_t place_bytes(const std::vector<Region>& runs, DType type) {
  std::size_t bytes = 0;
  for (const Region& run : runs) bytes = std::max(bytes, OffloadedArray::page_bytes(run, type));
  return bytes;
}

}  // namespace

std::size_t FetchedRuns::bytes(const std::vector<Region>& runs, DType type) {
  return places * place_bytes(runs, type) + OffloadPlace::granularity;
}

FetchedRuns::FetchedRuns(Device& device, OffloadedArray& array, const std::vector<Region>& runs, const std::string& rank)
    : units_(device, array, runs),
      runs_(runs),
      memory_(device.allocate(bytes(runs, array.type()), rank + ": fetched runs of parameters")) {
  constexpr std::uintptr_t granularity = OffloadPlace::granularity;
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory_.data()) + granularity - 1) / granularity * granularity;
  auto* pages = reinterpret_cast<char*>(begin);
  for (Place& place : places_) {
    place.pages = pages;
    place.fetched = device.make_event();
    place.released = device.make_event();
    pages += place_bytes(runs, array.type());
  }
}

Tensor FetchedRuns::acquire(Stream& transfer, std::size_t unit) {
  Place& place = places_[turn_];
  units_.in().wait(*place.released);
  units_.fetch(unit, place.pages);
  units_.in().record(*place.fetched);
  transfer.wait(*place.fetched);
  return {units_.first(unit, place.pages), {static_cast<std::int64_t>(runs_[unit].size())}, units_.type()};
}

void FetchedRuns::release(Stream& transfer, std::size_t) {
  transfer.record(*places_[turn_].released);
  turn_ = (turn_ + 1) % places;
}

}  // namespace pipetrain
