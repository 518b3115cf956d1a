// Gathers the weights that replicas divide in few bits (Wang et al. 2023, "ZeRO++: Extremely Efficient Collective Communication
// for Giant Model Training"): all replicas, the owners too, compute with the decoded weights, while the owners step their own
// in full. Blocks begin with each tensor's slice, so that weights do not depend on the layout of stages.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/compressed/compressed_gather.hpp"
#include "core/device.hpp"
#include "core/process_group.hpp"
#include "model/parameters/shard_units.hpp"

namespace pipetrain {

// Used by the rank's worker; not thread-safe.
class CodedUnits {
 public:
  // Throws Error(out_of_memory).
  CodedUnits(const ParameterLayout& layout, const std::vector<ShardUnit>& units, BlockCode code, Device& device,
             std::shared_ptr<Group> replicas, const std::string& rank);

  // True for matrices and tables of tokens; vectors are gathered in full.
  static bool codes(const ShardUnit& unit) { return !unit.vectors; }
  // Enqueues on `transfer`: own is this replica's range of the unit, and `full` receives all of it.
  void gather(Stream& transfer, const Tensor& own, const Tensor& full, std::size_t unit) {
    gather_.gather(transfer, own, full, blocks_[unit]);
  }

 private:
  CompressedGather gather_;
  std::vector<CompressedGather::Blocks> blocks_;  // by unit
};

}  // namespace pipetrain
