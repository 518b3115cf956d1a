#include "model/fp8_weights.hpp"

#include "model/blocks/fp8_memory.hpp"

namespace pipetrain {

bool multiplies_in_fp8(const Block& block, std::int64_t layers, const Numerics& numerics) {
  if (!numerics.precision.fp8_products) return false;
  if (!is_of_layer(block.kind)) return false;
  return block.layer >= numerics.bf16_layers.at_start && block.layer < layers - numerics.bf16_layers.at_end;
}

std::optional<MatrixSize> fp8_misfit(const ModelConfig& config, int tp) {
  if (config.hidden % fp8_multiple != 0) return MatrixSize{"hidden size", config.hidden};
  for (const auto& size : {MatrixSize{"size of all heads", config.heads * config.head_dim},
                           MatrixSize{"size of all key-value heads", config.kv_heads * config.head_dim},
                           MatrixSize{"intermediate size", config.intermediate},
                           MatrixSize{"experts' intermediate size", config.experts.intermediate},
                           MatrixSize{"shared expert's intermediate size", config.experts.shared_intermediate}})
    if (size.size % (fp8_multiple * tp) != 0) return size;
  return std::nullopt;
}

Fp8Weights::Fp8Weights(const ParameterLayout& layout, std::int64_t layers, const Numerics& numerics, bool takes_turns)
    : takes_turns_(takes_turns) {
  for (const BlockParameters& block : layout.blocks) {
    BlockMatrices& own = blocks_.emplace_back();
    if (!multiplies_in_fp8(block.block, layers, numerics)) continue;
    own.is_frozen = true;
    for (const StoredTensor& tensor : block.tensors) {
      Fp8Matrix& matrix = own.matrices.emplace_back();
      if (!is_quantisable(tensor.role)) continue;
      own.is_frozen &= !is_trained(tensor.group);
      matrix.rows = {nullptr, tensor.shape, DType::e4m3};
      matrix.scales = numerics.precision.fp8_blockwise ? Fp8Scales::blocks : Fp8Scales::tensor;
    }
  }
  place(memory_);
}

void Fp8Weights::place(Arena& memory) {
  for (BlockMatrices& block : blocks_) {
    if (takes_turns_) memory.rewind(0);
    for (Fp8Matrix& matrix : block.matrices) {
      if (matrix.rows.shape.rank() > 0)
        matrix = allocate_fp8(matrix.rows.shape, {DType::e4m3, matrix.scales}, {&memory, &memory});
    }
  }
}

void Fp8Weights::allocate(Device& device) {
  if (bytes() == 0) return;
  buffer_ = device.allocate(bytes(), "weights in 8 bits");
  memory_ = Arena(buffer_.data(), buffer_.bytes(), "weights in 8 bits");
  place(memory_);
}

void Fp8Weights::begin_step() {
  for (BlockMatrices& block : blocks_) block.up_to_date &= block.is_frozen;
}

void Fp8Weights::weights_replaced() {
  for (BlockMatrices& block : blocks_) block.up_to_date = false;
}

void Fp8Weights::update(Ops& ops, std::size_t block, const std::vector<Tensor>& weights) {
  BlockMatrices& own = blocks_[block];
  if (own.up_to_date || own.matrices.empty()) return;
  if (takes_turns_) weights_replaced();
  for (std::size_t i = 0; i < own.matrices.size(); ++i) {
    if (own.matrices[i].rows.shape.rank() > 0) ops.quantise({.x = weights[i], .out = own.matrices[i]});
  }
  own.up_to_date = true;
}

}  // namespace pipetrain
