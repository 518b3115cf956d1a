// KeyGradients is the memory in which the slices of a microbatch add up the gradients of each other's keys and
// values, in the backward of a stage's attention blocks: for one microbatch of each chunk. Not thread-safe.
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
  // spec.shape: the largest slice. tp: the number of ranks over which heads are spread.
  KeyGradients(const StageModelSpec& spec, const ParameterLayout& layout, int tp);

  std::size_t bytes() const { return bytes_of_block_ * blocks_; }  // 0 without slices
  // Allocates the memory on the stream's device.
  void allocate(Stream& stream);
  // Zeroes the sums of the chunk's blocks. Call it before the backward of a microbatch's last slice.
  void begin_microbatch(int chunk, Stream& stream) const;
  // Returns the sums of a block (its index in the layout): [batch R, 2 Hkv D] f32, with the R of the largest sequence; shorter
  // ones use the first rows. Without a shape for a block without attention; without memory before allocate().
  Tensor of(std::size_t block) const;

 private:
  Tensor at(std::size_t place) const;

  Shape shape_;  // the shape of one block's sums
  std::size_t bytes_of_block_ = 0, blocks_ = 0;
  std::vector<std::optional<std::size_t>> places_;  // by block of the layout: the index of its sums, if it has attention
  std::vector<int> chunks_;                         // by index of the sums
  Buffer memory_;
};

}  // namespace pipetrain
