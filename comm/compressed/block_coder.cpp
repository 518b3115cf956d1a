#include "comm/compressed/block_coder.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "comm/cuda/cuda_block_coder.hpp"
#include "core/cpu_stream.hpp"
#include "core/half.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t most_elements = 1024;
using Block = std::array<float, most_elements>;

// The numbers of a tensor from `begin` on.
void read_numbers(const Tensor& from, std::int64_t begin, std::span<float> values) {
  if (from.dtype == DType::f32) {
    std::copy_n(from.as<float>() + begin, values.size(), values.data());
    return;
  }
  const auto* const bits = from.as<std::uint16_t>() + begin;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = from.dtype == DType::bf16 ? from_bf16(bits[i]) : from_f16(bits[i]);
}

void write_numbers(std::span<const float> values, std::int64_t begin, const Tensor& to) {
  if (to.dtype == DType::f32) {
    std::copy_n(values.data(), values.size(), to.as<float>() + begin);
    return;
  }
  auto* const bits = to.as<std::uint16_t>() + begin;
  for (std::size_t i = 0; i < values.size(); ++i) bits[i] = to.dtype == DType::bf16 ? to_bf16(values[i]) : to_f16(values[i]);
}

class CpuBlockCoder final : public BlockCoder {
 public:
  explicit CpuBlockCoder(BlockCode code) : code_(code), format_(block_format(code)) {}

  void encode(Stream& stream, const BlockRun& run, std::uint32_t* words) const override {
    for_each_block(stream, run.elements, [code = code_, format = format_, run, words](std::int64_t block, const Range& own) {
      const std::span values(run.values + own.begin, own.size());
      if (run.averages != nullptr) average_block(values, run.averages + own.begin, run.fresh, run.kept);
      if (run.scales.squares != nullptr) divide_block(values, run.scales.from(own.begin));
      encode_block(code, values, run.error + own.begin, words + block * format.words);
    });
  }

  void decode(Stream& stream, const BlockRun& run, const std::uint32_t* words, int copies) const override {
    const std::int64_t distance = blocks_of(code_, run.elements) * format_.words;  // from one copy to the next
    const auto decode_one = [code = code_, format = format_, run, words, copies, distance](std::int64_t block,
                                                                                           const Range& own) {
      const std::span values(run.values + own.begin, own.size());
      for (int copy = 0; copy < copies; ++copy)
        decode_block(code, words + copy * distance + block * format.words, values, copy == 0 ? Decoding::write : Decoding::add);
      if (run.scales.squares != nullptr) multiply_block(values, run.scales.from(own.begin));
    };
    for_each_block(stream, run.elements, decode_one);
  }

  void encode_numbers(Stream& stream, const Tensor& numbers, std::uint32_t* words) const override {
    const auto encode_one = [code = code_, format = format_, numbers, words](std::int64_t block, const Range& own) {
      Block memory, error{};
      const std::span values(memory.data(), own.size());
      read_numbers(numbers, own.begin, values);
      encode_block(code, values, error.data(), words + block * format.words);
    };
    for_each_block(stream, numbers.elements(), encode_one);
  }

  void decode_numbers(Stream& stream, const std::uint32_t* words, const Tensor& numbers) const override {
    const auto decode_one = [code = code_, format = format_, numbers, words](std::int64_t block, const Range& own) {
      Block memory;
      const std::span values(memory.data(), own.size());
      decode_block(code, words + block * format.words, values, Decoding::write);
      write_numbers(values, own.begin, numbers);
    };
    for_each_block(stream, numbers.elements(), decode_one);
  }

 private:
  struct Range {
    std::int64_t begin, end;
    std::size_t size() const { return static_cast<std::size_t>(end - begin); }
  };

  BlockCode code_;
  BlockFormat format_;

  // Calls work(block, its elements) for all blocks, many to a tile.
  template <class Work>
  void for_each_block(Stream& stream, std::int64_t elements, const Work& work) const {
    constexpr std::int64_t tile_blocks = 64;
    CpuStream& cpu = cpu_stream(stream);
    const std::int64_t blocks = blocks_of(code_, elements);
    cpu.enqueue([&cpu, elements, work, blocks, size = format_.elements] {
      cpu.parallel_for((blocks + tile_blocks - 1) / tile_blocks, [&](std::int64_t tile) {
        for (std::int64_t block = tile * tile_blocks; block < std::min(blocks, (tile + 1) * tile_blocks); ++block)
          work(block, Range{block * size, std::min((block + 1) * size, elements)});
      });
    });
  }
};

}  // namespace

std::unique_ptr<BlockCoder> make_block_coder(Device& device, BlockCode code) {
  if (device.id().kind == DeviceKind::cuda) return make_cuda_block_coder(device, code);
  return std::make_unique<CpuBlockCoder>(code);
}

}  // namespace pipetrain
