// Where the slices of a microbatch sum up the gradients of each other's keys and values, in the backward of a stage's attention
// blocks: memory for one microbatch of each chunk. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/buffer.hpp"
#include "core/device.hpp"
#include "model/parameters/parameters.hpp"
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
  // Of a block (its index in the layout): [batch R, 2 Hkv D] f32, the R of the largest sequence, whose first rows are those of
  // shorter ones. Without a shape of a block without attention; without memory before allocate().
  Tensor of(std::size_t block) const;

 private:
  Tensor at(std::size_t place) const;

  Shape shape_;  // of one block
  std::size_t bytes_of_block_ = 0, blocks_ = 0;
  std::vector<std::optional<std::size_t>> places_;  // by block of the layout: of those with attention their number
  std::vector<int> chunks_;                         // by place
  Buffer memory_;
};

}  // namespace pipetrain
