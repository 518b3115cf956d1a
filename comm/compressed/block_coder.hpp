// Codes many blocks of numbers at once (comm/compressed/block_codes.hpp) on a device.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/compressed/block_code.hpp"
#include "comm/compressed/block_codes.hpp"
#include "core/device.hpp"

namespace pipetrain {

// Consecutive numbers: blocks of the code's size, of which the last may have fewer. The memory is the device's.
struct BlockRun {
  float* values = nullptr;  // [elements]
  std::int64_t elements = 0;
  float* error = nullptr;  // [elements] of the code; decode() does not use it
  // encode() codes fresh x values + kept x averages. Null: the values themselves.
  const float* averages = nullptr;  // [elements]
  float fresh = 1, kept = 0;
  BlockScales scales = {};  // encode() divides by them first, decode() multiplies at last; without squares neither does
};

// Only enqueues, the same bits on every call. The memory must outlive the stream's work. Thread-safe.
class BlockCoder {
 public:
  virtual ~BlockCoder() = default;
  BlockCoder(const BlockCoder&) = delete;
  BlockCoder& operator=(const BlockCoder&) = delete;

  // words [blocks, words of a block], output. Feeds the errors back. The values may change.
  virtual void encode(Stream& stream, const BlockRun& run, std::uint32_t* words) const = 0;
  // words [copies, blocks, words of a block]: the values become the sums of the copies, added in order.
  virtual void decode(Stream& stream, const BlockRun& run, const std::uint32_t* words, int copies) const = 0;
  // The same for numbers in f32, bf16 or f16 of which nothing is kept: what the code cannot express is lost.
  virtual void encode_numbers(Stream& stream, const Tensor& numbers, std::uint32_t* words) const = 0;
  virtual void decode_numbers(Stream& stream, const std::uint32_t* words, const Tensor& numbers) const = 0;

 protected:
  BlockCoder() = default;
};

// `code` is not BlockCode::none. Throws Error(unavailable) for a GPU in a build without CUDA.
std::unique_ptr<BlockCoder> make_block_coder(Device& device, BlockCode code);

}  // namespace pipetrain
