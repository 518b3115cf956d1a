// The matrices of a stage that are multiplied in 8 bits, rounded from the weights that the other operations read.
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

// Returns true if this block's products are in 8 bits. layers: the model's number of layers.
bool multiplies_in_fp8(const Block& block, std::int64_t layers, const Numerics& numerics);

// The size of one of the model's matrices.
struct MatrixSize {
  const char* what;
  std::int64_t size;
};
// Returns the first matrix whose part on each of `tp` ranks is not a multiple of fp8_multiple, which products
// in 8 bits require; nothing if all fit.
std::optional<MatrixSize> fp8_misfit(const ModelConfig& config, int tp);

// Holds both layouts of each matrix, one for the forward and one for the backward: 2 bytes a weight. Not thread-safe.
//
// If a rank keeps only a part of each weight and gathers the rest for each use, the blocks share one memory and
// are rounded again for each use; the bits are the same.
class Fp8Weights {
 public:
  // takes_turns: the blocks share one memory, as above; otherwise each block has memory of its own and is rounded once a step,
  // a frozen one once a run.
  Fp8Weights(const ParameterLayout& layout, std::int64_t layers, const Numerics& numerics, bool takes_turns);

  std::size_t bytes() const { return memory_.peak(); }
  // Allocates the matrices on the device.
  void allocate(Device& device);

  // Returns the matrices of this block (its index in ParameterLayout::blocks), in the order of
  // BlockParameters::tensors: without shapes for a tensor that is not multiplied in 8 bits, empty if the block
  // has none. Without memory before allocate().
  const std::vector<Fp8Matrix>& of(std::size_t block) const { return blocks_[block].matrices; }

  // Marks the matrices of trained weights as out of date, since a step has changed these.
  void begin_step();
  // Marks all matrices as out of date, those of frozen weights too: the next use reads other weights.
  void weights_replaced();
  // Enqueues the rounding of `weights` into of(block), unless it is up to date.
  void update(Ops& ops, std::size_t block, const std::vector<Tensor>& weights);

 private:
  struct BlockMatrices {
    std::vector<Fp8Matrix> matrices;
    bool is_frozen = false, up_to_date = false;
  };

  void place(Arena& memory);

  std::vector<BlockMatrices> blocks_;
  bool takes_turns_;
  Buffer buffer_;
  Arena memory_ = Arena::measuring();
};

}  // namespace pipetrain
