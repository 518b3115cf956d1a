// The matrices of a stage that are multiplied in 8 bits, made from the weights that the other operations read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/buffer.hpp"
#include "core/device.hpp"
#include "model/config/numerics.hpp"
#include "model/parameters/parameters.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// Whether this block's products are in 8 bits. layers: of the model.
bool multiplies_in_fp8(const Block& block, std::int64_t layers, const Numerics& numerics);

// A size of the model's matrices.
struct MatrixSize {
  const char* what;
  std::int64_t size;
};
// The first whose part on each of `tp` ranks is no multiple of fp8_multiple, as products in 8 bits need; nothing where all are.
std::optional<MatrixSize> fp8_misfit(const ModelConfig& config, int tp);

// Both layouts of each matrix, so that forward and backward have their own: 2 bytes a weight. Not thread-safe.
//
// Where a rank keeps only a part of each weight and gathers the others for each use, the blocks take turns in one place and
// are rounded for each use too; the bits are the same.
class Fp8Weights {
 public:
  // takes_turns: as above; else each block has a place of its own, and is rounded once a step.
  Fp8Weights(const ParameterLayout& layout, std::int64_t layers, const Numerics& numerics, bool takes_turns);

  std::size_t bytes() const { return memory_.peak(); }
  // Takes them from the device.
  void allocate(Device& device);

  // In the order of BlockParameters::tensors of this block (its index in ParameterLayout::blocks): without shapes where a
  // tensor is not multiplied in 8 bits, empty where none of them is. Without memory before allocate().
  const std::vector<Fp8Matrix>& of(std::size_t block) const { return blocks_[block].matrices; }

  // The weights are no longer those that were rounded.
  void weights_changed();
  // Enqueues what of(block) needs to be `weights`: nothing where it is.
  void update(Ops& ops, std::size_t block, const std::vector<Tensor>& weights);

 private:
  struct BlockMatrices {
    std::vector<Fp8Matrix> matrices;
    bool up_to_date = false;
  };

  void place(Arena& memory);

  std::vector<BlockMatrices> blocks_;
  bool takes_turns_;
  Buffer buffer_;
  Arena memory_ = Arena::measuring();
};

}  // namespace pipetrain
