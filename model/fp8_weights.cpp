#include "model/fp8_weights.hpp"

#include "model/blocks/fp8_memory.hpp"

namespace pipetrain {

bool multiplies_in_fp8(const Block& block, std::int64_t layers, const Numerics& numerics) {
  if (!numerics.precision.fp8_products) return false;
  if (block.kind != BlockKind::attention && block.kind != BlockKind::mlp) return false;
  return block.layer >= numerics.bf16_layers.at_start && block.layer < layers - numerics.bf16_layers.at_end;
}

Fp8Weights::Fp8Weights(const ParameterLayout& layout, std::int64_t layers, const Numerics& numerics) {
  for (const BlockParameters& block : layout.blocks) {
    BlockMatrices& own = blocks_.emplace_back();
    if (!multiplies_in_fp8(block.block, layers, numerics)) continue;
    for (const StoredTensor& tensor : block.tensors) {
      Fp8Matrix& matrix = own.matrices.emplace_back();
      if (is_matrix(tensor.role)) matrix = allocate_fp8(tensor.shape, DType::e4m3, {&memory_, &memory_});
    }
  }
}

void Fp8Weights::allocate(Device& device) {
  if (bytes() == 0) return;
  buffer_ = device.allocate(bytes(), "weights in 8 bits");
  memory_ = Arena(buffer_.data(), buffer_.bytes(), "weights in 8 bits");
  for (BlockMatrices& block : blocks_) {
    for (Fp8Matrix& matrix : block.matrices) {
      if (matrix.rows.shape.rank() > 0) matrix = allocate_fp8(matrix.rows.shape, DType::e4m3, {&memory_, &memory_});
    }
  }
}

void Fp8Weights::weights_changed() {
  for (BlockMatrices& block : blocks_) block.up_to_date = false;
}

void Fp8Weights::update(Ops& ops, std::size_t block, const std::vector<Tensor>& weights) {
  BlockMatrices& own = blocks_[block];
  if (own.up_to_date) return;
  for (std::size_t i = 0; i < own.matrices.size(); ++i) {
    if (own.matrices[i].rows.shape.rank() > 0) ops.quantise({.x = weights[i], .out = own.matrices[i]});
  }
  own.up_to_date = true;
}

}  // namespace pipetrain
