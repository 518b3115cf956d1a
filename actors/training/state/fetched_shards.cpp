#include "actors/training/state/fetched_shards.hpp"

#include <algorithm>
#include <cstdint>

namespace pipetrain {
namespace {

std::size_t buffer_bytes(const std::vector<Region>& ranges, DType type) {
  std::size_t bytes = 0;
  for (const Region& range : ranges) bytes = std::max(bytes, OffloadedArray::page_bytes(range, type));
  return bytes;
}

}  // namespace

std::size_t FetchedShards::bytes(const std::vector<Region>& ranges, DType type) {
  return buffers * buffer_bytes(ranges, type) + OffloadStorage::granularity;
}

FetchedShards::FetchedShards(Device& device, OffloadedArray& array, const std::vector<Region>& ranges, const std::string& rank)
    : units_(device, array, ranges),
      ranges_(ranges),
      memory_(device.allocate(bytes(ranges, array.type()), rank + ": fetched ranges of parameters")) {
  constexpr std::uintptr_t granularity = OffloadStorage::granularity;
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory_.data()) + granularity - 1) / granularity * granularity;
  auto* pages = reinterpret_cast<char*>(begin);
  for (PageBuffer& buffer : buffers_) {
    buffer.pages = pages;
    buffer.fetched = device.make_event();
    buffer.released = device.make_event();
    pages += buffer_bytes(ranges, array.type());
  }
}

Tensor FetchedShards::acquire(Stream& transfer, std::size_t unit) {
  PageBuffer& buffer = buffers_[next_];
  units_.in().wait(*buffer.released);
  units_.fetch(unit, buffer.pages);
  units_.in().record(*buffer.fetched);
  transfer.wait(*buffer.fetched);
  return {units_.first(unit, buffer.pages), {static_cast<std::int64_t>(ranges_[unit].size())}, units_.type()};
}

void FetchedShards::release(Stream& transfer, std::size_t) {
  transfer.record(*buffers_[next_].released);
  next_ = (next_ + 1) % buffers;
}

}  // namespace pipetrain
