// The storage of a replica's own ranges of divided weights between uses: on the device, or outside of it (FetchedShards).
// All replicas gather whole units from these ranges.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/device.hpp"
#include "core/tensor.hpp"
#include "model/parameters/arena_views.hpp"

namespace pipetrain {

// Used by the rank's worker; not thread-safe.
class OwnShards {
 public:
  virtual ~OwnShards() = default;
  OwnShards(const OwnShards&) = delete;
  OwnShards& operator=(const OwnShards&) = delete;

  virtual DType type() const = 0;
  // Returns the unit's range [n], valid for later work on `transfer` until release(). One at a time.
  virtual Tensor acquire(Stream& transfer, std::size_t unit) = 0;
  virtual void release(Stream& transfer, std::size_t unit) = 0;
  // See StepParameters.
  virtual void publish(std::size_t unit) = 0;
  virtual void loaded() = 0;

 protected:
  OwnShards() = default;
};

// All ranges in one shard on the device.
class ResidentShards final : public OwnShards {
 public:
  // ranges: the range of each unit, in the shard.
  ResidentShards(const Tensor& shard, std::vector<Region> ranges) : shard_(shard), ranges_(std::move(ranges)) {}

  DType type() const override { return shard_.dtype; }
  Tensor acquire(Stream&, std::size_t unit) override { return span(shard_, ranges_[unit].begin, ranges_[unit].size()); }
  void release(Stream&, std::size_t) override {}
  void publish(std::size_t) override {}
  void loaded() override {}

 private:
  Tensor shard_;
  std::vector<Region> ranges_;
};

}  // namespace pipetrain
