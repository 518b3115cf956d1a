#include "comm/compressed/compressed_gather.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/compressed/block_codes.hpp"
#include "core/cpu_stream.hpp"
#include "core/half.hpp"

namespace pipetrain {
namespace {

constexpr std::int64_t piece_blocks = 4096;  // of a member, that are gathered at once; about a megabyte in int8
constexpr std::size_t most_elements = 256;
using Block = std::array<float, most_elements>;

using Range = CompressedGather::Blocks::Range;

void read_block(const Tensor& from, const Range& range, float* values) {
  const auto count = static_cast<std::size_t>(range.end - range.begin);
  if (from.dtype == DType::f32) {
    std::copy_n(from.as<float>() + range.begin, count, values);
    return;
  }
  const auto* const bits = from.as<std::uint16_t>() + range.begin;
  for (std::size_t i = 0; i < count; ++i) values[i] = from.dtype == DType::bf16 ? from_bf16(bits[i]) : from_f16(bits[i]);
}

void write_block(const float* values, const Range& range, const Tensor& to) {
  const auto count = static_cast<std::size_t>(range.end - range.begin);
  if (to.dtype == DType::f32) {
    std::copy_n(values, count, to.as<float>() + range.begin);
    return;
  }
  auto* const bits = to.as<std::uint16_t>() + range.begin;
  for (std::size_t i = 0; i < count; ++i) bits[i] = to.dtype == DType::bf16 ? to_bf16(values[i]) : to_f16(values[i]);
}

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

Range CompressedGather::Blocks::range(int member, std::int64_t block) const {
  const auto& runs = runs_[static_cast<std::size_t>(member)];
  const auto after = std::upper_bound(runs.begin(), runs.end(), block,
                                      [](std::int64_t wanted, const Run& run) { return wanted < run.first_block; });
  const Run& run = *std::prev(after);
  const std::int64_t begin = run.begin + (block - run.first_block) * size_;
  return {begin, std::min(begin + size_, run.end)};
}

// The members' pieces follow one another.
std::size_t CompressedGather::bytes(BlockCode code, int members) {
  return static_cast<std::size_t>(members * piece_blocks * block_format(code).words) * sizeof(std::uint32_t);
}

CompressedGather::CompressedGather(Device& device, std::shared_ptr<Group> group, BlockCode code, const std::string& name)
    : group_(std::move(group)),
      code_(code),
      memory_(device.allocate(bytes(code, group_->size()), name + ": compressed weights")) {}

void CompressedGather::gather(Stream& stream, const Tensor& own, const Tensor& full, const Blocks& blocks) {
  constexpr std::int64_t tile_blocks = 64;
  CpuStream& cpu = cpu_stream(stream);
  auto* const memory = static_cast<std::uint32_t*>(memory_.data());
  const std::int64_t words = block_format(code_).words;
  std::int64_t most = 0;
  for (int member = 0; member < blocks.members(); ++member) most = std::max(most, blocks.count(member));
  // Calls work(block of the member, its words) for the rows of a piece that are the member's.
  const auto for_rows = [&cpu, memory, words](const RowSplit& rows, int member, std::int64_t first, const auto& work) {
    cpu.parallel_for((rows.count(member) + tile_blocks - 1) / tile_blocks, [&](std::int64_t tile) {
      const std::int64_t end = std::min(rows.count(member), (tile + 1) * tile_blocks);
      for (std::int64_t row = tile * tile_blocks; row < end; ++row)
        work(first + row, memory + (rows.begin(member) + row) * words);
    });
  };
  for (std::int64_t first = 0; first < most; first += piece_blocks) {
    std::vector<std::int64_t> cuts = {0};
    for (int member = 0; member < blocks.members(); ++member)
      cuts.push_back(cuts.back() + std::clamp<std::int64_t>(blocks.count(member) - first, 0, piece_blocks));
    const RowSplit rows(cuts);
    const int self = group_->rank();
    cpu.enqueue([=, this, &blocks] {
      for_rows(rows, self, first, [&](std::int64_t block, std::uint32_t* coded) {
        const Range range = blocks.range(self, block);
        Block values, error{};
        read_block(own, {range.begin - blocks.begin(self), range.end - blocks.begin(self)}, values.data());
        encode_block(code_, {values.data(), static_cast<std::size_t>(range.end - range.begin)}, error.data(), coded);
      });
    });
    const Tensor all{memory, {rows.total(), words}}, shard = all.row_range(rows.begin(self), rows.end(self));
    group_->all_gather(stream, shard, all, rows);
    cpu.enqueue([=, this, &blocks] {
      for (int member = 0; member < blocks.members(); ++member) {
        for_rows(rows, member, first, [&](std::int64_t block, std::uint32_t* coded) {
          const Range range = blocks.range(member, block);
          Block values;
          decode_block(code_, coded, {values.data(), static_cast<std::size_t>(range.end - range.begin)}, Decoding::write);
          write_block(values.data(), range, full);
        });
      }
    });
  }
}

}  // namespace pipetrain
