#include "actors/training/rank/rank_memory.hpp"

#include <algorithm>

#include "actors/training/rank/activation_pool.hpp"
#include "actors/training/rank/preference_inputs.hpp"
#include "actors/training/rank/rank_state.hpp"
#include "core/loading_threads.hpp"
#include "model/blocks/position_origins.hpp"

namespace pipetrain {

using schedules::InputKind;

namespace {

Shape lane_shape(const RankSetup& setup, InputKind kind, int chunk, const Shape& hidden) {
  const bool tokens =
      kind == InputKind::activation && setup.chunks[static_cast<std::size_t>(chunk)].front().kind == BlockKind::embedding;
  if (kind == InputKind::target) return {(setup.config.mtp.is_trained() ? 3 : 1) * setup.shape.tokens()};
  if (tokens) return {setup.shape.tokens()};
  return hidden;
}

}  // namespace

// Returns the workspace of matrix products plus the largest scratch, which is that of attention's backward (fp32 gradients of
// the queries, partial ones of keys and values per query head) or of a split product. A braid's forward has both once
// more, but no attention backward.
std::size_t gpu_scratch_estimate(const RankSetup& setup) {
  const auto& config = setup.config;
  const auto ranks = setup.groups.tensor ? setup.groups.tensor->size() : 1;
  const auto tokens = static_cast<std::size_t>(setup.shape.tokens());
  const auto attention = static_cast<std::size_t>(config.heads * config.head_dim / ranks) * 12;
  const auto product = static_cast<std::size_t>(config.hidden) * (ranks > 1 ? 8 : 4);
  constexpr std::size_t libraries = std::size_t{64} << 20;
  return libraries + tokens * std::max(attention, product) + (runs_in_turns(setup) ? libraries + tokens * product : 0);
}

// Per thread: parts of both operands of a product, eight heads of a sequence in attention's backward, and four rows.
std::size_t cpu_scratch_estimate(const RankSetup& setup, unsigned threads) {
  if (!setup.numerics.precision.rounds_weights()) return 0;
  const auto& config = setup.config;
  const std::int64_t ranks = setup.groups.tensor ? setup.groups.tensor->size() : 1;
  const std::int64_t key_value = config.kv_heads_of_rank(ranks) * (config.head_dim + config.value_dim());
  const std::int64_t packed = config.heads / ranks * config.head_dim + key_value;
  const std::int64_t inner = config.intermediate / ranks, words = config.vocabulary / ranks + 8;
  constexpr std::int64_t piece = 256;
  const std::int64_t summed = std::max({config.hidden, inner, packed, words, setup.shape.tokens()});
  const std::int64_t floats = 2 * piece * summed + piece * piece + 8 * setup.shape.sequence * config.head_dim +
                              4 * std::max({config.hidden, 2 * inner, packed, words});
  return static_cast<std::size_t>(threads) * static_cast<std::size_t>(floats) * sizeof(float);
}

Tensor lane_tensor(const RankSetup& setup, InputKind kind, int chunk, const Shape& hidden) {
  const Shape shape = lane_shape(setup, kind, chunk, hidden);
  return {nullptr, shape, shape.rank() == 1 ? DType::i32 : setup.numerics.precision.comm};
}

std::size_t hidden_bytes(const RankSetup& setup, const Shape& hidden) {
  return Tensor{nullptr, hidden, setup.numerics.precision.comm}.bytes();
}

bool computes_parts(const RankSetup& setup) { return setup.slices > 1 || !setup.context.is_whole(); }

std::size_t documents_bytes(const RankSetup& setup) {
  if (!setup.isolates_documents) return 0;
  const std::int64_t tokens = setup.microbatches / setup.slices * setup.shape.batch * setup.sequence;
  const std::int64_t numbers = tokens * (computes_parts(setup) ? 2 : 1);
  return static_cast<std::size_t>(numbers) * sizeof(std::int32_t);
}

StageModelSpec model_spec(const RankSetup& setup) {
  return {.config = setup.config,
          .chunks = setup.chunks,
          .shape = setup.shape,
          .numerics = setup.numerics,
          .slices = setup.slices,
          .gathers_weights = setup.zero.divides_weights() || setup.offload.parameters,
          .context = {.part = setup.context},
          .isolates_documents = setup.isolates_documents,
          .experts = {.part = setup.experts}};
}

bool runs_in_turns(const RankSetup& setup) { return setup.braids && (setup.groups.tensor || !setup.experts.is_whole()); }

MemoryUse memory_use(const RankSetup& setup, const StageModel& model) {
  MemoryUse use = RankState::memory(setup, model.parameters());
  use.parameters += model.fp8_weight_bytes();
  use.workspace += model.workspace_bytes() * (runs_in_turns(setup) ? 2 : 1);
  if (!setup.context.is_whole()) use.workspace += PositionOrigins::bytes(setup.shape);
  if (setup.device) {
    const bool gpu = setup.device->id().kind == DeviceKind::cuda;
    use.workspace += gpu ? gpu_scratch_estimate(setup) : cpu_scratch_estimate(setup, loading_threads(*setup.device));
  }
  use.activations = ActivationPool::bytes(model, setup.needs) + model.key_gradient_bytes();
  add_offloaded(OffloadedActivations::bytes(model, setup.needs), setup.offload, setup.device, use);
  const Shape hidden = model.hidden_shape();
  use.queues += OutgoingLinks::memory(setup.links, hidden_bytes(setup, hidden));
  use.queues += documents_bytes(setup) + PreferenceInputs::bytes(setup);
  use.workspace += setup.group_bytes;
  use.queues += static_cast<std::size_t>(setup.mirrors) * align_up(hidden_bytes(setup, hidden));
  const auto lane_bytes = [&](InputKind kind, int chunk) { return align_up(lane_tensor(setup, kind, chunk, hidden).bytes()); };
  for (int chunk = 0; chunk < static_cast<int>(setup.chunks.size()); ++chunk) {
    const auto& needs = setup.needs.chunks[static_cast<std::size_t>(chunk)];
    use.queues += static_cast<std::size_t>(needs.activation_slots) * lane_bytes(InputKind::activation, chunk) +
                  static_cast<std::size_t>(needs.gradient_slots) * lane_bytes(InputKind::gradient, chunk) +
                  static_cast<std::size_t>(needs.target_slots) * lane_bytes(InputKind::target, chunk);
  }
  return use;
}

MemoryUse estimate_memory(const RankSetup& setup) {
  const auto ops = make_measuring_ops();
  const TensorParallel tp{setup.groups.tensor.get(), setup.layout.sequence_parallel};
  const auto model = make_stage_model(model_spec(setup), tp, *ops);
  return memory_use(setup, *model);
}

}  // namespace pipetrain
