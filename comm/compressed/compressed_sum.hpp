// Sums numbers over the members of a group in few bits: each member sends every owner its blocks encoded, the owner adds them
// in rank order in fp32, and sends the sums to all, encoded again, where all want them. Both codings feed their errors back
// (block_codes.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/compressed/block_code.hpp"
#include "comm/compressed/block_coder.hpp"
#include "comm/compressed/block_codes.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// Numbers that all members sum.
struct CompressedPart {
  float* values = nullptr;     // [elements] this member's; become the sums
  std::int64_t elements = 0;   // the same in all members
  float* error = nullptr;      // [elements] of this member's code
  float* sum_error = nullptr;  // those of the sums that it owns, from its first block on; null: each owner alone gets its sums
  RowSplit owners;             // of blocks_of(elements) blocks; the same in all members
  // The numbers that are summed in place of `values`: fresh x values + kept x averages. Null: the values themselves.
  const float* averages = nullptr;  // [elements]
  float fresh = 1, kept = 0;
  // The sizes of the numbers: the code and its errors are of the numbers divided by them, the sums of the products. They are
  // the same in all members. Without squares the numbers are coded as they are.
  BlockScales scales = {};
};

// Used by one stream at a time; only enqueues.
class CompressedSum {
 public:
  // `name` is for errors. Throws Error(out_of_memory).
  CompressedSum(Device& device, std::shared_ptr<Group> group, BlockCode code, const std::string& name);

  // The part's memory must outlive the stream's work.
  void sum(Stream& stream, const CompressedPart& part);

  // Returns the bytes of the buffers in a group of this many members.
  static std::size_t bytes(BlockCode code, int members);

 private:
  std::shared_ptr<Group> group_;
  BlockCode code_;
  std::unique_ptr<BlockCoder> coder_;
  Buffer memory_;
};

}  // namespace pipetrain
