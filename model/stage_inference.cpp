#include "model/stage_inference.hpp"

#include <algorithm>
#include <cassert>

namespace pipetrain {

StageInference::StageInference(const InferenceSpec& spec, const TensorParallel& tp, Ops& ops)
    : spec_(spec), tp_(tp), ops_(ops), workspace_(Arena::measuring()) {
  assert(!tp.sequence_parallel && !spec.config.adapter.exists());
  check_precision(spec.precision);
  models_.emplace_back(spec_.config, spec_.blocks, tp_);
  for (const ModelConfig& adapted : spec_.adapters) models_.emplace_back(adapted, spec_.blocks, tp_);
  attention_blocks_ = static_cast<std::size_t>(
      std::ranges::count(spec_.blocks, BlockKind::attention, [](const Block& block) { return block.kind; }));
  const Tensor nothing{nullptr, {}, spec_.precision.compute};
  bind_blocks(nothing, std::vector<Tensor>(adapters(), nothing));  // for measuring
  const std::int64_t most_short = spec_.config.rope.short_positions();
  if (most_short < spec_.positions) short_positions_ = most_short;
  rotary_ = rotary_tables_at(nullptr, spec_.config, spec_.positions);
  rotary_bytes_ = align_up(rotary_bytes(spec_.config, spec_.positions));
  if (short_positions_ > 0) {
    short_rotary_ = rotary_tables_at(nullptr, spec_.config, short_positions_);
    short_rotary_bytes_ = align_up(rotary_bytes(spec_.config, short_positions_));
  }
  workspace_peak_ = measure();
}

std::int64_t StageInference::logits_columns() const {
  return parameters().blocks.back().find(TensorRole::output_weight)->shape[0];
}

Shape StageInference::cache_shape() const {
  if (spec_.config.latent) return {spec_.positions, spec_.config.latent->cached_columns()};
  return {spec_.positions, 2 * spec_.config.kv_heads_of_rank(tp_.size()) * spec_.config.head_dim};
}

std::size_t StageInference::cache_bytes() const {
  const Tensor one{nullptr, cache_shape(), spec_.precision.compute};
  return static_cast<std::size_t>(spec_.caches) * attention_blocks_ * align_up(one.bytes());
}

Tensor StageInference::cache(int sequence, std::size_t attention_block) const {
  Tensor one{nullptr, cache_shape(), spec_.precision.compute};
  const std::size_t index = static_cast<std::size_t>(sequence) * attention_blocks_ + attention_block;
  if (caches_ != nullptr) one.data = caches_ + index * align_up(one.bytes());
  return one;
}

void StageInference::bind(const Tensor& weights, const std::vector<Tensor>& adapters, void* caches, void* workspace) {
  assert(weights.dtype == spec_.precision.compute);
  assert(static_cast<std::size_t>(weights.elements()) >= parameters().weight_elements);
  bind_blocks(weights, adapters);
  caches_ = static_cast<char*>(caches);
  auto* const memory = static_cast<char*>(workspace);
  rotary_ = rotary_tables_at(memory, spec_.config, spec_.positions);
  upload_rotary_tables(rotary_, spec_.config, ops_.stream());
  if (short_positions_ > 0) {
    short_rotary_ = rotary_tables_at(memory + rotary_bytes_, spec_.config, short_positions_);
    upload_rotary_tables(short_rotary_, spec_.config, ops_.stream());
  }
  workspace_ = Arena(memory + rotary_bytes_ + short_rotary_bytes_, workspace_peak_, "workspace");
  ops_.set_workspace(workspace_);
}

void StageInference::bind_blocks(const Tensor& weights, const std::vector<Tensor>& adapters) {
  assert(adapters.size() + 1 == models_.size());
  models_.front().bind(parameters(), weights, {}, spec_.precision.grad);
  for (std::size_t i = 0; i < adapters.size(); ++i)
    models_[i + 1].bind(parameters(), weights, adapters[i], spec_.precision.grad);
}

void StageInference::forward(const InferenceArgs& args) { run(ops_, workspace_, args); }

void StageInference::run(Ops& ops, Arena& workspace, const InferenceArgs& args) {
  const std::int64_t count = args.input.shape[0];
  assert(count > 0 && count <= spec_.run && args.first + count <= spec_.positions && args.cache < spec_.caches);
  const auto& blocks = models_.at(static_cast<std::size_t>(args.adapter)).blocks();
  const ArenaScope scope(workspace);
  BlockContext context{ops, workspace, tp_, {1, count}, spec_.precision.compute, {}, Recompute::full};
  context.rotary = rotary_of(std::max(args.length, args.first + count)).rows(args.first, args.first + count);
  // The residual stream alternates between two buffers.
  const Shape hidden{count, spec_.config.hidden};
  const Tensor places[] = {workspace.allocate(hidden, context.dtype), workspace.allocate(hidden, context.dtype)};
  CachedForwardArgs block{.input = args.input, .output = {}, .first = args.first};
  std::size_t attention_block = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    block.output = i + 1 == blocks.size() ? args.output : places[i % 2];
    if (spec_.blocks[i].kind == BlockKind::attention) block.cache = cache(args.cache, attention_block++);
    blocks[i]->cached_forward(context, block);
    block.input = block.output;
  }
}

// Runs the real forward of each model with operations that compute nothing, in an arena that only counts.
std::size_t StageInference::measure() {
  const auto ops = make_measuring_ops();
  Arena workspace = Arena::measuring();
  ops->set_workspace(workspace);
  const bool begins_model = spec_.blocks.front().kind == BlockKind::embedding;
  const Tensor hidden{nullptr, {spec_.run, spec_.config.hidden}, spec_.precision.compute},
      ids{nullptr, {spec_.run}, DType::i32};
  const Tensor logits{nullptr, {1, has_head() ? logits_columns() : 0}, spec_.precision.compute};
  for (std::size_t adapter = 0; adapter < models_.size(); ++adapter)
    run(*ops, workspace,
        {.adapter = static_cast<int>(adapter), .input = begins_model ? ids : hidden, .output = has_head() ? logits : hidden});
  return workspace.peak();
}

}  // namespace pipetrain
