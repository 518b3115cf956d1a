#include "comm/compressed/compressed_gather.hpp"

#include <algorithm>

namespace pipetrain {
namespace {

constexpr std::int64_t gathered_blocks = 4096;  // of a member, that are gathered at once; about a megabyte in int8
}  // namespace

CompressedGather::Blocks::Blocks(BlockCode code, const std::vector<std::int64_t>& segments,
                                 const std::vector<std::int64_t>& cuts)
    : size_(block_format(code).elements), cuts_(cuts) {
  for (std::size_t member = 0; member + 1 < cuts.size(); ++member) {
    std::vector<Run>& runs = runs_.emplace_back();
    std::int64_t& blocks = counts_.emplace_back(0);
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const std::int64_t next = i + 1 < segments.size() ? segments[i + 1] : cuts.back();
      const std::int64_t begin = std::max(segments[i], cuts[member]), end = std::min(next, cuts[member + 1]);
      if (begin >= end) continue;
      runs.push_back({blocks, begin, end});
      blocks += (end - begin + size_ - 1) / size_;
    }
  }
}

std::vector<CompressedGather::Blocks::Part> CompressedGather::Blocks::parts(int member, std::int64_t first,
                                                                            std::int64_t count) const {
  std::vector<Part> parts;
  for (const Run& run : runs_[static_cast<std::size_t>(member)]) {
    const std::int64_t blocks = (run.end - run.begin + size_ - 1) / size_;
    const std::int64_t from = std::max(first, run.first_block), to = std::min(first + count, run.first_block + blocks);
    if (from >= to) continue;
    const std::int64_t begin = run.begin + (from - run.first_block) * size_;
    parts.push_back({from - first, begin, std::min(begin + (to - from) * size_, run.end)});
  }
  return parts;
}

// The members' pieces follow one another.
std::size_t CompressedGather::bytes(BlockCode code, int members) {
  return static_cast<std::size_t>(members * gathered_blocks * block_format(code).words) * sizeof(std::uint32_t);
}

CompressedGather::CompressedGather(Device& device, std::shared_ptr<Group> group, BlockCode code, const std::string& name)
    : group_(std::move(group)),
      code_(code),
      coder_(make_block_coder(device, code)),
      memory_(device.allocate(bytes(code, group_->size()), name + ": compressed weights")) {}

void CompressedGather::gather(Stream& stream, const Tensor& own, const Tensor& full, const Blocks& blocks) {
  auto* const memory = static_cast<std::uint32_t*>(memory_.data());
  const std::int64_t words = block_format(code_).words;
  const int self = group_->rank();
  std::int64_t most = 0;
  for (int member = 0; member < blocks.members(); ++member) most = std::max(most, blocks.count(member));
  for (std::int64_t first = 0; first < most; first += gathered_blocks) {
    std::vector<std::int64_t> cuts = {0};
    for (int member = 0; member < blocks.members(); ++member)
      cuts.push_back(cuts.back() + std::clamp<std::int64_t>(blocks.count(member) - first, 0, gathered_blocks));
    const RowSplit rows(cuts);
    const auto coded = [&](int member, const Blocks::Part& part) { return memory + (rows.begin(member) + part.row) * words; };
    const std::int64_t own_begin = blocks.begin(self);
    for (const Blocks::Part& part : blocks.parts(self, first, rows.count(self)))
      coder_->encode_numbers(stream, own.row_range(part.begin - own_begin, part.end - own_begin), coded(self, part));
    const Tensor all{memory, {rows.total(), words}}, shard = all.row_range(rows.begin(self), rows.end(self));
    group_->all_gather(stream, shard, all, rows);
    for (int member = 0; member < blocks.members(); ++member)
      for (const Blocks::Part& part : blocks.parts(member, first, rows.count(member)))
        coder_->decode_numbers(stream, coded(member, part), full.row_range(part.begin, part.end));
  }
}

}  // namespace pipetrain
