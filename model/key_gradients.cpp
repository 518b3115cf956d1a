#include "model/key_gradients.hpp"

namespace pipetrain {

KeyGradients::KeyGradients(const StageModelSpec& spec, const ParameterLayout& layout, int tp)
    : shape_{spec.shape.tokens() * spec.slices,
             spec.config.kv_heads_of_rank(tp) * (spec.config.head_dim + spec.config.value_dim())},
      places_(layout.blocks.size()) {
  if (spec.slices == 1) return;
  bytes_of_block_ = align_up(Tensor{nullptr, shape_, DType::f32}.bytes());
  for (std::size_t i = 0; i < layout.blocks.size(); ++i) {
    if (layout.blocks[i].block.kind != BlockKind::attention) continue;
    places_[i] = blocks_++;
    chunks_.push_back(layout.blocks[i].chunk);
  }
}

void KeyGradients::allocate(Stream& stream) {
  if (bytes() > 0) memory_ = stream.device().allocate(bytes(), "gradients of keys and values");
}

Tensor KeyGradients::at(std::size_t place) const {
  Tensor all{nullptr, shape_, DType::f32};
  if (memory_.data() != nullptr) all.data = static_cast<char*>(memory_.data()) + place * bytes_of_block_;
  return all;
}

void KeyGradients::begin_microbatch(int chunk, Stream& stream) const {
  for (std::size_t place = 0; place < blocks_; ++place)
    if (chunks_[place] == chunk) stream.zero(at(place));
}

Tensor KeyGradients::of(std::size_t block) const { return places_[block] ? at(*places_[block]) : Tensor{}; }

}  // namespace pipetrain
