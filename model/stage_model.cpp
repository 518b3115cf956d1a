#include "model/stage_model.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/device.hpp"
#include "model/blocks/block_compute.hpp"
#include "model/blocks/position_origins.hpp"
#include "model/config/recompute_layers.hpp"
#include "model/fp8_weights.hpp"
#include "model/key_gradients.hpp"
#include "model/make_block.hpp"
#include "model/parameters/gradient_sums.hpp"
#include "model/rotation/rotary_tables.hpp"
#include "model/stage_edge.hpp"

namespace pipetrain {
namespace {

class ChunkSlot final : public ActivationSlot {
 public:
  enum class State { empty, forwarded, pending };

  explicit ChunkSlot(int chunk_index) : chunk(chunk_index) {}

  int chunk;
  Arena saved = Arena::measuring(), pending = Arena::measuring();  // until memory is set
  void* memory = nullptr;  // the memory of saved; a different one once the values have moved
  std::vector<std::unique_ptr<BlockCompute::Saved>> blocks;
  std::vector<Tensor> inputs;          // [Tr, H], the input of each block
  Tensor final_hidden;                 // [Tr, H]: ForwardArgs::final_hidden
  Tensor counts;                       // [batch, E] i32 with routed experts: RouterContext::counts after the chunk
  std::vector<KeptGradient> kept;      // from I until W
  std::vector<std::size_t> kept_ends;  // the end of each block's gradients, from the chunk's last block to its first
  // The forward's draws, which the backward repeats.
  std::optional<DropoutDraws> draws;
  std::optional<Tensor> documents, origins;
  std::optional<SliceArgs> slice;
  State state = State::empty;
};

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
        fp8_(layout_, spec.config.layers, spec.numerics, spec.gathers_weights),
        key_gradients_(spec, layout_, tp.size()),
        slices_(spec.slices),
        workspace_(Arena::measuring()),
        chunks_(spec.chunks.size()) {
    check_precision(numerics_.precision);
    const auto without_memory = weight_views(layout_, {nullptr, {}, numerics_.precision.compute});  // for measuring
    const auto no_grads = measuring_grads();
    std::vector<std::vector<Recompute>> recompute;
    for (const auto& chunk : spec.chunks) recompute.push_back(recompute_of_blocks(chunk, numerics_, slices_));
    // A head without chunks would keep all logits of a microbatch's slices until its first backward.
    const bool again_by_head = numerics_.loss_chunks > 1 || slices_ > 1;
    const std::optional<int> loss_chunks = again_by_head ? std::optional(numerics_.loss_chunks) : std::nullopt;
    for (std::size_t index = 0; index < layout_.blocks.size(); ++index) {
      const BlockParameters& block = layout_.blocks[index];
      Chunk& chunk = chunks_.at(static_cast<std::size_t>(block.chunk));
      const Recompute again = recompute[static_cast<std::size_t>(block.chunk)].at(chunk.blocks.size());
      chunk.blocks.push_back({make_block(config_, block, tp_, loss_chunks), index, again});
      chunk.blocks.back().compute->bind({block, without_memory[index], no_grads[index], fp8_.of(index)});
      chunk.begins_model |= block.block.kind == BlockKind::embedding;
      chunk.ends_model |= block.block.kind == BlockKind::head;
      chunk.predicts_further |= block.block.kind == BlockKind::mtp;
    }
    for (int chunk = 0; chunk < static_cast<int>(chunks_.size()); ++chunk) chunk_at(chunk).bytes = measure(chunk);
    norm_workspace_ = measure_norm();
  }

  const ParameterLayout& parameters() const override { return layout_; }
  ActivationBytes activation_bytes(int chunk) const override { return chunk_at(chunk).bytes; }
  std::size_t workspace_bytes() const override {
    std::size_t most = norm_workspace_;
    for (const Chunk& chunk : chunks_) most = std::max(most, chunk.bytes.workspace);
    return most;
  }
  Shape hidden_shape() const override { return edge().shape(); }

  void bind(ParameterStore& weights, GradientPlaces grads) override {
    assert(grads.blocks.size() == layout_.blocks.size() && grads.zeroed.size() == chunks_.size());
    weights_ = &weights;
    grads_ = std::move(grads);
    place_rotary_tables();
    if (!cp_.part.is_whole()) origins_.emplace(cp_.part, largest_, ops_.stream());
    if (fp8_.bytes() > 0) fp8_.allocate(ops_.stream().device());
    key_gradients_.allocate(ops_.stream());
  }

  void read_weights(ParameterStore& weights) override {
    assert(fp8_.bytes() == 0 || &weights == weights_);
    weights_ = &weights;
  }

  void bind_workspace(void* data, std::size_t bytes) override {
    workspace_ = Arena(data, bytes, "workspace");
    ops_.set_workspace(workspace_);
  }

  void bind_second(Ops& ops, void* data, std::size_t bytes) override {
    second_ops_ = &ops;
    second_workspace_ = Arena(data, bytes, "workspace of a braid's forward");
    ops.set_workspace(second_workspace_);
  }

  std::unique_ptr<ActivationSlot> make_slot(int chunk) const override { return make_chunk_slot(chunk); }
  void set_saved(int chunk, ActivationSlot& slot, void* saved) const override {
    ChunkSlot& own = slot_of(chunk, slot);
    own.saved = Arena(saved, chunk_at(chunk).bytes.saved, "saved activations");
    own.memory = saved;
  }
  std::size_t saved_bytes(int chunk, ActivationSlot& slot) const override { return slot_of(chunk, slot).saved.used(); }
  void move_saved(int chunk, ActivationSlot& slot, void* saved) const override {
    ChunkSlot& own = slot_of(chunk, slot);
    assert(own.state == ChunkSlot::State::forwarded);
    const Relocation moved{own.memory, chunk_at(chunk).bytes.saved, saved};
    for (Tensor& input : own.inputs) moved.move(input);
    moved.move(own.counts);
    moved.move(own.final_hidden);
    for (const auto& block : own.blocks) block->relocate(moved);
    own.memory = saved;
  }
  void set_pending(int chunk, ActivationSlot& slot, void* pending) const override {
    slot_of(chunk, slot).pending = Arena(pending, chunk_at(chunk).bytes.pending, "pending weight gradients");
  }

  void listen(GradientListener listener) override { listener_ = std::move(listener); }

  void set_sequence(std::int64_t sequence) override {
    assert(sequence >= 1 && sequence <= largest_.sequence);
    shape_.sequence = sequence;
    if (origins_) origins_->set_sequence(sequence);
  }

  std::size_t fp8_weight_bytes() const override { return fp8_.bytes(); }
  std::size_t key_gradient_bytes() const override { return key_gradients_.bytes(); }

  void begin_step() override {
    fp8_.weights_changed();
    for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      chunks_[chunk].accumulate = Accumulate::no;
      for (const Tensor& gradients : grads_.zeroed[chunk]) ops_.stream().zero(gradients);
    }
  }

  void forward(int chunk, const ForwardArgs& args, ActivationSlot& slot) override {
    ChunkSlot& own = slot_of(chunk, slot);
    own.draws = args.draws;
    own.documents = args.documents.data == nullptr ? std::nullopt : std::optional(args.documents);
    own.origins = args.origins.data == nullptr ? std::nullopt : std::optional(args.origins);
    own.slice = args.slice;
    run_forward(args.second ? context(own, *second_ops_, second_workspace_) : context(own), chunk, args, own);
  }
  void backward(int chunk, const BackwardArgs& args, ActivationSlot& slot) override {
    ChunkSlot& own = slot_of(chunk, slot);
    begin_slices(chunk, own);
    run_backward(context(own), chunk, args, own, accumulate(chunk), false);
  }
  void input_grad(int chunk, const BackwardArgs& args, ActivationSlot& slot) override {
    ChunkSlot& own = slot_of(chunk, slot);
    assert(!own.pending.is_measuring() || chunk_at(chunk).bytes.pending == 0);
    begin_slices(chunk, own);
    run_backward(context(own), chunk, args, own, accumulate(chunk), true);
  }
  void weight_grad(int chunk, ActivationSlot& slot) override { run_weight_grad(ops_, chunk, slot_of(chunk, slot)); }

 private:
  struct StageBlock {
    std::unique_ptr<BlockCompute> compute;
    std::size_t index = 0;  // its index in layout_.blocks
    Recompute recompute = Recompute::none;
    std::vector<Tensor> bound = {};  // its weights at the last use
  };
  struct Chunk {
    std::vector<StageBlock> blocks;
    ActivationBytes bytes;
    Accumulate accumulate = Accumulate::no;  // for the next microbatch's gradients
    bool begins_model = false, ends_model = false, predicts_further = false;
  };

  const Chunk& chunk_at(int chunk) const { return chunks_.at(static_cast<std::size_t>(chunk)); }
  Chunk& chunk_at(int chunk) { return chunks_.at(static_cast<std::size_t>(chunk)); }
  static ChunkSlot& slot_of([[maybe_unused]] int chunk, ActivationSlot& slot) {
    auto& own = static_cast<ChunkSlot&>(slot);
    assert(own.chunk == chunk);
    return own;
  }

  StageEdge edge() const { return {config_, shape_, tp_.shard_rows(shape_.tokens()), numerics_.precision.compute}; }

  // Returns whether this microbatch's gradients are added to earlier ones. The gradients of a step's first
  // microbatch are enqueued before any other's, now or in W.
  Accumulate accumulate(int chunk) { return std::exchange(chunk_at(chunk).accumulate, Accumulate::yes); }

  BlockContext context(const ChunkSlot& slot) { return context(slot, ops_, workspace_); }
  BlockContext context(const ChunkSlot& slot, Ops& ops, Arena& workspace) {
    assert(!workspace.is_measuring() || workspace_bytes() == 0);
    return {ops,     workspace,       tp_,        shape_,         numerics_.precision.compute,
            rotary_, Recompute::none, slot.draws, slot.documents, cp_,
            ep_,     origins_of(slot)};
  }
  std::optional<Tensor> origins_of(const ChunkSlot& slot) const {
    if (slot.origins) return slot.origins;
    return origins_ ? std::optional(origins_->tensor()) : std::nullopt;
  }
  // Returns the context of the chunk's block number i; it points to `slice` if microbatches pass in slices.
  BlockContext of_block(BlockContext context, const Chunk& chunk, std::size_t i, const ChunkSlot& slot,
                        SliceContext& slice) const {
    context.recompute = chunk.blocks[i].recompute;
    if (!slot.slice) return context;
    slice.first = slot.slice->first;
    for (const ActivationSlot* one : slot.slice->earlier)
      slice.earlier.push_back(static_cast<const ChunkSlot&>(*one).blocks[i].get());
    slice.key_gradients = key_gradients_.of(chunk.blocks[i].index);
    context.slice = &slice;
    return context;
  }

  void begin_slices(int chunk, const ChunkSlot& slot) {
    if (slot.slice && slot.slice->last) key_gradients_.begin_microbatch(chunk, ops_.stream());
  }

  // Holds the block's weights while `use` enqueues work that reads them.
  template <class Use>
  void with_weights(StageBlock& block, Use use) {
    if (weights_ == nullptr) return use(*block.compute);  // measuring
    const std::vector<Tensor>& weights = weights_->acquire(block.index);
    const bool same_place = std::equal(weights.begin(), weights.end(), block.bound.begin(), block.bound.end(),
                                       [](const Tensor& a, const Tensor& b) { return a.data == b.data; });
    if (!same_place) {
      assert(weights.front().dtype == numerics_.precision.compute);
      block.compute->bind({layout_.blocks[block.index], weights, grads_.blocks[block.index], fp8_.of(block.index)});
      block.bound = weights;
    }
    fp8_.update(ops_, block.index, weights);
    use(*block.compute);
    weights_->release(block.index);
  }

  bool is_routed(const StageBlock& block) const { return layout_.blocks[block.index].block.kind == BlockKind::experts; }

  // Returns the biases of the chunk's routed block of this number; without a shape if there are none.
  Tensor bias_of(const Tensor& biases, std::int64_t routed) const {
    return biases.data == nullptr ? Tensor{} : biases.row_range(routed, routed + 1).reshaped({config_.experts.count});
  }

  void open(const StageBlock& block) const {
    if (listener_.opens) listener_.opens(block.index);
  }
  void close(const StageBlock& block) const {
    if (listener_.closes) listener_.closes(block.index);
  }

  void place_rotary_tables() {
    const std::int64_t positions = largest_.sequence * slices_ * cp_.part.size;
    const std::size_t bytes = rotary_bytes(config_, positions);
    if (bytes == 0) return;
    rotary_memory_ = ops_.stream().device().allocate(bytes, "the rotary table");
    rotary_ = rotary_tables_at(rotary_memory_.data(), config_, positions);
    upload_rotary_tables(rotary_, config_, ops_.stream());
  }

  std::unique_ptr<ChunkSlot> make_chunk_slot(int chunk) const {
    auto slot = std::make_unique<ChunkSlot>(chunk);
    for (const auto& block : chunk_at(chunk).blocks) slot->blocks.push_back(block.compute->make_saved());
    return slot;
  }

  void run_forward(const BlockContext& context, int chunk_index, const ForwardArgs& args, ChunkSlot& slot) {
    Chunk& chunk = chunk_at(chunk_index);
    assert(slot.state == ChunkSlot::State::empty || slot.state == ChunkSlot::State::forwarded);
    const ArenaScope scope(context.workspace);
    slot.saved.rewind(0);
    slot.inputs.clear();
    const StageEdge edge = this->edge();
    if (edge.has_counts()) begin_counts(context.ops, chunk, args, slot);
    ForwardArgs block_args = args;
    if (!chunk.begins_model) block_args.input = edge.values_of(args.input);
    if (chunk.predicts_further) block_args.final_hidden = slot.final_hidden = slot.saved.allocate(edge.values(), context.dtype);
    std::int64_t routed = 0;
    for (std::size_t i = 0; i < chunk.blocks.size(); ++i) {
      const bool last = i + 1 == chunk.blocks.size();
      slot.inputs.push_back(block_args.input);
      block_args.output = !last              ? slot.saved.allocate(edge.values(), context.dtype)
                          : chunk.ends_model ? args.output
                                             : edge.values_of(args.output);
      SliceContext slice;
      RouterContext router{slot.counts};
      if (is_routed(chunk.blocks[i])) router.bias = bias_of(args.expert_biases, routed++);
      BlockContext own = of_block(context, chunk, i, slot, slice);
      if (edge.has_counts()) own.router = &router;
      own.base_alone = args.base_alone;
      with_weights(chunk.blocks[i],
                   [&](const BlockCompute& block) { block.forward(own, block_args, slot.saved, *slot.blocks[i]); });
      block_args.input = block_args.output;
    }
    if (edge.has_counts()) pass_counts_on(context, chunk, args, slot);
    slot.state = ChunkSlot::State::forwarded;
  }

  void begin_counts(Ops& ops, const Chunk& chunk, const ForwardArgs& args, ChunkSlot& slot) const {
    slot.counts = slot.saved.allocate(edge().counts(), DType::i32);
    chunk.begins_model ? ops.zero(slot.counts) : ops.copy(edge().counts_of(args.input), slot.counts);
  }
  // The end of the model adds up the parts of a sequence that several ranks have, and its slices, so that the last slice knows
  // the whole sequence's counts.
  void pass_counts_on(const BlockContext& context, const Chunk& chunk, const ForwardArgs& args, const ChunkSlot& slot) const {
    if (!chunk.ends_model) return context.ops.copy(slot.counts, edge().counts_of(args.output));
    context.sum_over_parts(slot.counts);
    if (slot.slice && !slot.slice->earlier.empty())
      context.ops.add(slot.counts, static_cast<const ChunkSlot&>(*slot.slice->earlier.back()).counts);
  }
  // Returns the counts of all routed layers over the whole sequence, and passes them on to the chunk before this one.
  Tensor total_counts(Ops& ops, const Chunk& chunk, const BackwardArgs& args, const ChunkSlot& slot) const {
    const Tensor total = chunk.ends_model ? slot.counts : edge().counts_of(args.output_grad);
    if (!chunk.begins_model) ops.copy(total, edge().counts_of(args.input_grad));
    if (chunk.ends_model && slot.slice && slot.slice->last) {
      for (const ActivationSlot* earlier : slot.slice->earlier) ops.copy(total, static_cast<const ChunkSlot&>(*earlier).counts);
    }
    return total;
  }

  void run_backward(const BlockContext& context, int chunk_index, const BackwardArgs& args, ChunkSlot& slot,
                    Accumulate accumulate, bool defer_weights) {
    Chunk& chunk = chunk_at(chunk_index);
    assert(slot.state == ChunkSlot::State::forwarded);
    const ArenaScope scope(context.workspace);
    slot.pending.rewind(0);
    slot.kept.clear();
    slot.kept_ends.clear();
    WeightGradients gradients = defer_weights
                                    ? WeightGradients::deferred(context.ops, slot.pending, accumulate, slot.kept)
                                    : WeightGradients::immediate(context.ops, context.workspace, accumulate, listener_.added);
    const StageEdge edge = this->edge();
    RouterContext router{.sequence_scale = args.sequence_scale};
    if (edge.has_counts()) router.counts = total_counts(context.ops, chunk, args, slot);
    std::int64_t routed =
        std::count_if(chunk.blocks.begin(), chunk.blocks.end(), [&](const StageBlock& block) { return is_routed(block); });
    BackwardArgs block_args = args;
    if (chunk.predicts_further) block_args.final_hidden_grad = context.workspace.allocate(edge.values(), context.dtype);
    if (!chunk.ends_model) block_args.output_grad = edge.values_of(args.output_grad);
    for (std::size_t i = chunk.blocks.size(); i-- > 0;) {
      // The gradient is written over the block's input, which nothing reads afterwards; so it stays valid for W too.
      block_args.input_grad = i > 0 ? slot.inputs[i] : chunk.begins_model ? args.input_grad : edge.values_of(args.input_grad);
      if (!defer_weights) open(chunk.blocks[i]);
      SliceContext slice;
      BlockContext own = of_block(context, chunk, i, slot, slice);
      if (edge.has_counts()) own.router = &router;
      if (is_routed(chunk.blocks[i])) {
        --routed;
        router.bias = bias_of(args.expert_biases, routed);
        if (args.router_statistics.data != nullptr) router.statistics = args.router_statistics.row_range(routed, routed + 1);
      }
      const auto run = [&](const BlockCompute& block) { block.backward(own, block_args, gradients, *slot.blocks[i]); };
      if (layout_.blocks[chunk.blocks[i].index].block.kind == BlockKind::embedding) {
        run(*chunk.blocks[i].compute);  // it reads no weight
      } else {
        with_weights(chunk.blocks[i], run);
      }
      if (!defer_weights) close(chunk.blocks[i]);
      slot.kept_ends.push_back(slot.kept.size());
      block_args.output_grad = block_args.input_grad;
    }
    slot.state = defer_weights ? ChunkSlot::State::pending : ChunkSlot::State::empty;
  }

  void run_weight_grad(Ops& ops, int chunk, ChunkSlot& slot) const {
    assert(slot.state == ChunkSlot::State::pending);
    const auto& blocks = chunk_at(chunk).blocks;
    std::size_t next = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const StageBlock& block = blocks[blocks.size() - 1 - i];
      open(block);
      for (; next < slot.kept_ends[i]; ++next) compute(ops, slot.kept[next], listener_.added);
      close(block);
    }
    slot.kept.clear();
    slot.state = ChunkSlot::State::empty;
  }

  // Gradients without memory; frozen tensors have no place either, as in bind().
  std::vector<std::vector<Tensor>> measuring_grads() const {
    auto grads = weight_views(layout_, {nullptr, {}, numerics_.precision.grad});
    for (std::size_t block = 0; block < grads.size(); ++block) {
      for (std::size_t i = 0; i < grads[block].size(); ++i) {
        if (!is_trained(layout_.blocks[block].tensors[i].group)) grads[block][i] = {};
      }
    }
    return grads;
  }

  // Runs every action with operations that compute nothing, in arenas that only count.
  ActivationBytes measure(int chunk) {
    const auto ops = make_measuring_ops();
    Arena workspace = Arena::measuring();
    ops->set_workspace(workspace);
    const std::int64_t positions = shape_.sequence * cp_.part.size;  // of a slice, on all ranks that share it
    const RotaryTables tables = rotary_tables_at(nullptr, config_, positions * slices_);
    const BlockContext context{
        *ops,           workspace, tp_,        shape_,    numerics_.precision.compute, tables, Recompute::none,
        DropoutDraws{}, {},        {cp_.part}, {ep_.part}};
    const auto slot = make_chunk_slot(chunk), before = make_chunk_slot(chunk);
    if (slices_ > 1) {  // a slice after another needs the most memory
      slot->slice = {.first = positions, .earlier = {before.get()}};
      before->slice = SliceArgs{};
    }
    const Tensor hidden{nullptr, hidden_shape(), numerics_.precision.compute}, ids{nullptr, {shape_.tokens()}, DType::i32};
    const Tensor loss_sum{nullptr, config_.preference ? Shape{shape_.batch, 2} : Shape{2}, DType::f64},
        targets{nullptr, {3 * shape_.tokens()}, DType::i32};
    ForwardArgs forward{chunk_at(chunk).begins_model ? ids : hidden, targets, hidden, loss_sum, {}};
    if (config_.preference) forward.preference_facts = Tensor{nullptr, {shape_.batch, preference_facts}, DType::f64};
    if (slices_ > 1) run_forward(context, chunk, forward, *before);
    run_forward(context, chunk, forward, *slot);
    run_backward(context, chunk, {hidden, hidden, 1}, *slot, Accumulate::yes, true);
    run_weight_grad(*ops, chunk, *slot);
    run_forward(context, chunk, forward, *slot);
    run_backward(context, chunk, {hidden, hidden, 1}, *slot, Accumulate::yes, false);
    return {slot->saved.peak(), slot->pending.peak(), workspace.peak()};
  }

  // The step's end uses the same workspace; of its operations square_sums() needs the most.
  std::size_t measure_norm() const {
    const auto ops = make_measuring_ops();
    Arena workspace = Arena::measuring();
    ops->set_workspace(workspace);
    for (const Parameter& parameter : layout_.parameters) {
      const Tensor gradient{nullptr, {parameter.local.elements()}, DType::f32};
      ops->square_sum(gradient, {nullptr, {1}, DType::f64});
      if (parameter.copies > 1) sum_copied_grads({copied_part(parameter, gradient, tp_)}, tp_, *ops);
    }
    return workspace.peak();
  }

  ModelConfig config_;
  ParameterLayout layout_;
  MicrobatchShape largest_, shape_;  // the shape that memory is allocated for; that of the current actions
  TensorParallel tp_;
  ContextParallel cp_;
  ExpertParallel ep_;
  Ops& ops_;
  Numerics numerics_;
  Fp8Weights fp8_;
  KeyGradients key_gradients_;
  int slices_;  // of each microbatch; the shapes are those of one slice
  Arena workspace_;
  Ops* second_ops_ = nullptr;
  Arena second_workspace_ = Arena::measuring();
  std::size_t norm_workspace_ = 0;
  Buffer rotary_memory_;
  RotaryTables rotary_;                     // without memory where positions are learned
  std::optional<PositionOrigins> origins_;  // set if ranks share sequences
  ParameterStore* weights_ = nullptr;       // null: measuring
  GradientPlaces grads_;
  GradientListener listener_;
  std::vector<Chunk> chunks_;
};

}  // namespace

std::unique_ptr<StageModel> make_stage_model(const StageModelSpec& spec, const TensorParallel& tp, Ops& ops) {
  return std::make_unique<TransformerStage>(spec, tp, ops);
}

}  // namespace pipetrain
