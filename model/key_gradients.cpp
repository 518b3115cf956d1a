#include "model/key_gradients.hpp"

namespace pipetrain {

KeyGradients::KeyGradients(const StageModelSpec& spec, const ParameterLayout& layout, int tp)
    : cols_(2 * spec.config.kv_heads / tp * spec.config.head_dim), places_(layout.blocks.size()) {
  if (spec.slices == 1) return;
  bytes_of_slice_ = align_up(static_cast<std::size_t>(spec.shape.tokens() * cols_) * sizeof(float));
  bytes_of_block_ = bytes_of_slice_ * static_cast<std::size_t>(spec.slices);
  for (std::size_t i = 0; i < layout.blocks.size(); ++i) {
    if (layout.blocks[i].block.kind != BlockKind::attention) continue;
    places_[i] = blocks_++;
    chunks_.push_back(layout.blocks[i].chunk);
  }
}

void KeyGradients::allocate(Stream& stream) {
  if (bytes() > 0) memory_ = stream.device().allocate(bytes(), "gradients of keys and values");
}

Tensor KeyGradients::all_of(std::size_t place) const {
  Tensor all{nullptr, {static_cast<std::int64_t>(bytes_of_block_ / sizeof(float))}, DType::f32};
  if (memory_.data() != nullptr) all.data = static_cast<char*>(memory_.data()) + place * bytes_of_block_;
  return all;
}

void KeyGradients::begin_microbatch(int chunk, Stream& stream) const {
  for (std::size_t place = 0; place < blocks_; ++place)
    if (chunks_[place] == chunk) stream.zero(all_of(place));
}

std::vector<Tensor> KeyGradients::of(std::size_t block, const std::vector<std::int64_t>& tokens) const {
  std::vector<Tensor> slices;
  if (!places_[block]) return slices;
  const Tensor all = all_of(*places_[block]);
  for (std::size_t slice = 0; slice < tokens.size(); ++slice) {
    const auto begin = static_cast<std::int64_t>(slice * bytes_of_slice_ / sizeof(float));
    slices.push_back(all.row_range(begin, begin + tokens[slice] * cols_).reshaped({tokens[slice], cols_}));
  }
  return slices;
}

}  // namespace pipetrain
