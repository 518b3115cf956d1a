#include "model/stage_model.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/device.hpp"
#include "model/blocks/position_origins.hpp"
#include "model/chunk_passes.hpp"
#include "model/config/recompute_layers.hpp"
#include "model/key_gradients.hpp"
#include "model/make_block.hpp"
#include "model/measured_chunk.hpp"
#include "model/model_chunk.hpp"
#include "model/rotation/rotary_tables.hpp"
#include "model/stage_edge.hpp"
#include "model/stage_weights.hpp"

namespace pipetrain {
namespace {

class TransformerStage final : public StageModel {
 public:
  TransformerStage(const StageModelSpec& spec, const TensorParallel& tp, Ops& ops)
      : config_(spec.config),
        layout_(layout_parameters(spec.config, spec.chunks, tp.rank(), tp.size(), spec.experts.part)),
        largest_(spec.shape),
        shape_(spec.shape),
        tp_(tp),
        cp_(spec.context),
        ep_(spec.experts),
        ops_(ops),
        numerics_(spec.numerics),
        slices_(spec.slices),
        isolates_documents_(spec.isolates_documents),
        weights_(spec, layout_),
        key_gradients_(spec, layout_, tp.size()),
        passes_(config_, weights_, key_gradients_),
        workspace_(Arena::measuring()),
        chunks_(spec.chunks.size()) {
    check_precision(numerics_.precision);
    make_blocks(spec);
    for (ModelChunk& chunk : chunks_) chunk.bytes = measured_bytes(passes_, chunk, spec, tp_);
    norm_workspace_ = measured_norm_workspace(layout_, tp_);
  }

  const ParameterLayout& parameters() const override { return layout_; }
  ActivationBytes activation_bytes(int chunk) const override { return chunk_at(chunk).bytes; }
  std::size_t workspace_bytes() const override {
    std::size_t most = norm_workspace_;
    for (const ModelChunk& chunk : chunks_) most = std::max(most, chunk.bytes.workspace);
    return most;
  }
  std::size_t fp8_weight_bytes() const override { return weights_.fp8_bytes(); }
  std::size_t key_gradient_bytes() const override { return key_gradients_.bytes(); }
  Shape hidden_shape() const override {
    const std::int64_t counted = StageEdge::counted_rows(shape_.batch, shape_.tokens() * cp_.part.size, isolates_documents_);
    return StageEdge(config_, tp_.shard_rows(shape_.tokens()), counted, numerics_.precision.compute).shape();
  }

  void bind(ParameterStore& weights, GradientPlaces grads) override {
    assert(grads.blocks.size() == layout_.blocks.size() && grads.zeroed.size() == chunks_.size());
    weights_.bind(weights, std::move(grads), ops_);
    place_rotary_tables();
    if (!cp_.part.is_whole()) origins_.emplace(cp_.part, largest_, ops_.stream());
    key_gradients_.allocate(ops_.stream());
  }
  void read_weights(ParameterStore& weights) override { weights_.read(weights); }
  void weights_loaded() override { weights_.loaded(); }

  void bind_workspace(void* data, std::size_t bytes) override {
    workspace_ = Arena(data, bytes, "workspace");
    ops_.set_workspace(workspace_);
  }
  void bind_second(Ops& ops, void* data, std::size_t bytes) override {
    second_ops_ = &ops;
    second_workspace_ = Arena(data, bytes, "workspace of a braid's forward");
    ops.set_workspace(second_workspace_);
  }

  std::unique_ptr<ActivationSlot> make_slot(int chunk) const override { return chunk_at(chunk).make_slot(); }
  void set_saved(int chunk, ActivationSlot& slot, void* saved) const override {
    slot_of(chunk, slot).place_saved(saved, chunk_at(chunk).bytes.saved);
  }
  std::size_t saved_bytes(int chunk, ActivationSlot& slot) const override { return slot_of(chunk, slot).saved.used(); }
  void move_saved(int chunk, ActivationSlot& slot, void* saved) const override {
    slot_of(chunk, slot).move_saved(saved, chunk_at(chunk).bytes.saved);
  }
  void set_pending(int chunk, ActivationSlot& slot, void* pending) const override {
    slot_of(chunk, slot).pending = Arena(pending, chunk_at(chunk).bytes.pending, "pending weight gradients");
  }

  void listen(GradientListener listener) override { passes_.listen(std::move(listener)); }

  void set_sequence(std::int64_t sequence) override {
    assert(sequence >= 1 && sequence <= largest_.sequence);
    shape_.sequence = sequence;
    if (origins_) origins_->set_sequence(sequence);
  }

  void begin_step() override {
    weights_.begin_step();
    for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      chunks_[chunk].accumulate = Accumulate::no;
      for (const Tensor& gradients : weights_.zeroed_grads(chunk)) ops_.stream().zero(gradients);
    }
  }

  void forward(int chunk, const ForwardArgs& args, ActivationSlot& slot) override {
    ChunkSlot& own = slot_of(chunk, slot);
    own.keep_arguments(args);
    passes_.forward(args.second ? context(own, *second_ops_, second_workspace_) : context(own, ops_, workspace_),
                    chunk_at(chunk), args, own);
  }
  void backward(int chunk, const BackwardArgs& args, ActivationSlot& slot) override {
    run_backward(chunk, args, slot_of(chunk, slot), WeightHalf::now);
  }
  void input_grad(int chunk, const BackwardArgs& args, ActivationSlot& slot) override {
    ChunkSlot& own = slot_of(chunk, slot);
    assert(!own.pending.is_measuring() || chunk_at(chunk).bytes.pending == 0);
    run_backward(chunk, args, own, WeightHalf::deferred);
  }
  void weight_grad(int chunk, ActivationSlot& slot) override {
    passes_.weight_grad(ops_, chunk_at(chunk), slot_of(chunk, slot));
  }

 private:
  const ModelChunk& chunk_at(int chunk) const { return chunks_.at(static_cast<std::size_t>(chunk)); }
  ModelChunk& chunk_at(int chunk) { return chunks_.at(static_cast<std::size_t>(chunk)); }
  static ChunkSlot& slot_of([[maybe_unused]] int chunk, ActivationSlot& slot) {
    auto& own = static_cast<ChunkSlot&>(slot);
    assert(own.chunk == chunk);
    return own;
  }

  void make_blocks(const StageModelSpec& spec) {
    const auto without_memory = weight_views(layout_, {nullptr, {}, numerics_.precision.compute});  // for measuring
    const auto no_grads = measuring_grads(layout_, numerics_.precision.grad);
    std::vector<std::vector<Recompute>> recompute;
    for (const auto& chunk : spec.chunks) recompute.push_back(recompute_of_blocks(chunk, numerics_, slices_));
    // A head without chunks would keep all logits of a microbatch's slices until its first backward.
    const bool again_by_head = numerics_.loss_chunks > 1 || slices_ > 1;
    const std::optional<int> loss_chunks = again_by_head ? std::optional(numerics_.loss_chunks) : std::nullopt;
    for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) chunks_[chunk].index = static_cast<int>(chunk);
    for (std::size_t index = 0; index < layout_.blocks.size(); ++index) {
      const BlockParameters& block = layout_.blocks[index];
      ModelChunk& chunk = chunk_at(block.chunk);
      const Recompute again = recompute[static_cast<std::size_t>(block.chunk)].at(chunk.blocks.size());
      chunk.blocks.push_back({make_block(config_, block, tp_, loss_chunks), block.block, index, again});
      weights_.bind_measuring(chunk.blocks.back(), without_memory[index], no_grads[index]);
      chunk.begins_model |= block.block.kind == BlockKind::embedding;
      chunk.ends_model |= block.block.kind == BlockKind::head;
      chunk.predicts_further |= block.block.kind == BlockKind::mtp;
    }
  }

  void place_rotary_tables() {
    const std::int64_t positions = largest_.sequence * slices_ * cp_.part.size;
    const std::size_t bytes = rotary_bytes(config_, positions);
    if (bytes == 0) return;
    rotary_memory_ = ops_.stream().device().allocate(bytes, "the rotary table");
    rotary_ = rotary_tables_at(rotary_memory_.data(), config_, positions);
    upload_rotary_tables(rotary_, config_, ops_.stream());
  }

  BlockContext context(const ChunkSlot& slot, Ops& ops, Arena& workspace) {
    assert(!workspace.is_measuring() || workspace_bytes() == 0);
    BlockContext made{ops,     workspace,       tp_,        shape_,         numerics_.precision.compute,
                      rotary_, Recompute::none, slot.draws, slot.documents, cp_,
                      ep_,     origins_of(slot)};
    made.isolates_documents = isolates_documents_;
    return made;
  }
  std::optional<Tensor> origins_of(const ChunkSlot& slot) const {
    if (slot.origins) return slot.origins;
    return origins_ ? std::optional(origins_->tensor()) : std::nullopt;
  }

  void run_backward(int chunk, const BackwardArgs& args, ChunkSlot& slot, WeightHalf half) {
    if (slot.is_last_slice()) key_gradients_.begin_microbatch(chunk, ops_.stream());
    // The gradients of a step's first microbatch are enqueued before any other's, now or in W; later ones are added to them.
    const Accumulate accumulate = std::exchange(chunk_at(chunk).accumulate, Accumulate::yes);
    passes_.backward(context(slot, ops_, workspace_), chunk_at(chunk), args, slot, accumulate, half);
  }

  ModelConfig config_;
  ParameterLayout layout_;
  MicrobatchShape largest_, shape_;  // the shape that memory is allocated for; that of the current actions
  TensorParallel tp_;
  ContextParallel cp_;
  ExpertParallel ep_;
  Ops& ops_;
  Numerics numerics_;
  int slices_;  // of each microbatch; the shapes are those of one slice
  bool isolates_documents_;
  StageWeights weights_;
  KeyGradients key_gradients_;
  ChunkPasses passes_;
  Arena workspace_;
  Ops* second_ops_ = nullptr;
  Arena second_workspace_ = Arena::measuring();
  std::size_t norm_workspace_ = 0;
  Buffer rotary_memory_;
  RotaryTables rotary_;                     // without memory where positions are learned
  std::optional<PositionOrigins> origins_;  // set if ranks share sequences
  std::vector<ModelChunk> chunks_;
};

}  // namespace

std::unique_ptr<StageModel> make_stage_model(const StageModelSpec& spec, const TensorParallel& tp, Ops& ops) {
  return std::make_unique<TransformerStage>(spec, tp, ops);
}

}  // namespace pipetrain
