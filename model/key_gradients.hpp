// Where the slices of a microbatch sum up the gradients of each other's keys and values, in the backward of a stage's attention
// blocks: memory for one microbatch of each chunk. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/buffer.hpp"
#include "core/device.hpp"
#include "model/parameters.hpp"
#include "model/stage_model.hpp"

namespace pipetrain {

class KeyGradients {
 public:
  // spec.shape: of the largest slice. tp: the ranks over which heads are spread.
  KeyGradients(const StageModelSpec& spec, const ParameterLayout& layout, int tp);

  std::size_t bytes() const { return bytes_of_block_ * blocks_; }  // 0 without slices
  // From the stream's device.
  void allocate(Stream& stream);
  // Zeroes those of the chunk's blocks: before the backward of a microbatch's last slice.
  void begin_microbatch(int chunk, Stream& stream) const;
  // Of a block (its index in the layout), and of so many tokens in each slice: [tokens, 2 Hkv D] f32 each. Empty of a block
  // without attention; without memory before allocate().
  std::vector<Tensor> of(std::size_t block, const std::vector<std::int64_t>& tokens) const;

 private:
  Tensor all_of(std::size_t place) const;  // of one block

  std::int64_t cols_ = 0;
  std::size_t bytes_of_slice_ = 0, bytes_of_block_ = 0, blocks_ = 0;
  std::vector<std::optional<std::size_t>> places_;  // by block of the layout: of those with attention their number
  std::vector<int> chunks_;                         // by place
  Buffer memory_;
};

}  // namespace pipetrain
