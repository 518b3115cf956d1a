// A replica's own ranges of divided weights, outside of the device: each is fetched into one of two buffers, from which
// it is gathered; while one is gathered, the next is fetched. So a replica's link to the host or the disk carries only
// its share of the weights. Source: Rajbhandari et al. 2021, "ZeRO-Infinity", arXiv 2104.07857.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/offload/offloaded_units.hpp"
#include "actors/training/state/own_shards.hpp"
#include "core/buffer.hpp"

namespace pipetrain {

class FetchedShards final : public OwnShards {
 public:
  // ranges: the range of each unit, in the array's elements. The array must outlive it. rank: named in Error(out_of_memory).
  FetchedShards(Device& device, OffloadedArray& array, const std::vector<Region>& ranges, const std::string& rank);
  // Returns the bytes on the device. Pure.
  static std::size_t bytes(const std::vector<Region>& ranges, DType type);

  DType type() const override { return units_.type(); }
  Tensor acquire(Stream& transfer, std::size_t unit) override;
  void release(Stream& transfer, std::size_t unit) override;
  void publish(std::size_t unit) override { units_.stored(unit); }
  void loaded() override { units_.settle(); }

 private:
  static constexpr std::size_t buffers = 2;
  struct PageBuffer {
    char* pages = nullptr;
    std::unique_ptr<Event> fetched, released;
  };

  OffloadedUnits units_;
  std::vector<Region> ranges_;
  Buffer memory_;
  std::array<PageBuffer, buffers> buffers_;
  std::size_t next_ = 0;
};

}  // namespace pipetrain
