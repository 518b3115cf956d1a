// Gathers numbers of which each member of a group has a range, in few bits: each member encodes its range, and all members,
// itself among them, decode what they receive, so that all have the same numbers. What the code cannot express is lost: the
// owner keeps the numbers elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/compressed/block_code.hpp"
#include "comm/compressed/block_coder.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// Used by one stream at a time; only enqueues.
class CompressedGather {
 public:
  // The blocks of a range of numbers.
  class Blocks {
   public:
    // segments: the first numbers of parts whose blocks begin anew, ascending from 0 on. cuts: the first number of each
    // member's range, then the count of all; those within a segment are multiples of a block from its beginning.
    Blocks(BlockCode code, const std::vector<std::int64_t>& segments, const std::vector<std::int64_t>& cuts);

    // Consecutive numbers of a member, and the first of their blocks in a piece.
    struct Part {
      std::int64_t row, begin, end;
    };
    std::int64_t count(int member) const { return counts_[static_cast<std::size_t>(member)]; }
    // Returns the numbers of the member's blocks [first, first + count).
    std::vector<Part> parts(int member, std::int64_t first, std::int64_t count) const;
    std::int64_t begin(int member) const { return cuts_[static_cast<std::size_t>(member)]; }  // of its range
    int members() const { return static_cast<int>(counts_.size()); }

   private:
    struct Run {
      std::int64_t first_block, begin, end;
    };
    std::int64_t size_;  // of a block
    std::vector<std::int64_t> cuts_, counts_;
    std::vector<std::vector<Run>> runs_;  // by member
  };

  // `name` is for errors. Throws Error(out_of_memory).
  CompressedGather(Device& device, std::shared_ptr<Group> group, BlockCode code, const std::string& name);

  // own: this member's range, f32, bf16 or f16; may be its range of `full`, which receives the decoded numbers of all.
  void gather(Stream& stream, const Tensor& own, const Tensor& full, const Blocks& blocks);

  // Returns the bytes of the buffer in a group of this many members.
  static std::size_t bytes(BlockCode code, int members);

 private:
  std::shared_ptr<Group> group_;
  BlockCode code_;
  std::unique_ptr<BlockCoder> coder_;
  Buffer memory_;
};

}  // namespace pipetrain
