#include "actors/generation/generation_rank.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "actors/ranks/load_weights.hpp"
#include "core/error.hpp"

namespace pipetrain {

using schedules::InputKind;

namespace {

// Returns one lane of a queue's slot, without memory.
Tensor lane_tensor(const GenerationRankSetup& setup, InputKind kind) {
  if (kind != InputKind::activation) return {nullptr, {0}, DType::i32};
  if (setup.id.pp == 0) return {nullptr, {setup.model.run}, DType::i32};
  return {nullptr, {setup.model.run, setup.model.config.hidden}, setup.model.precision.comm};
}

std::size_t hidden_bytes(const GenerationRankSetup& setup) {
  return Tensor{nullptr, {setup.model.run, setup.model.config.hidden}, setup.model.precision.comm}.bytes();
}

// Returns the scratch memory of matrix products, and of sums over the ranks.
std::size_t gpu_scratch_estimate(const GenerationRankSetup& setup) {
  const auto row = static_cast<std::size_t>(setup.model.config.hidden) * (setup.tensor ? 8 : 4);
  return (std::size_t{64} << 20) + static_cast<std::size_t>(setup.model.run) * row;
}

std::size_t logits_bytes(const GenerationRankSetup& setup, const StageInference& model) {
  if (!model.has_head()) return 0;
  return Tensor{nullptr, {setup.model.caches, model.logits_columns()}, setup.model.precision.compute}.bytes();
}

GenerationMemory memory_of(const GenerationRankSetup& setup, const StageInference& model) {
  GenerationMemory memory;
  std::size_t elements = model.parameters().weight_elements;
  for (std::size_t adapter = 0; adapter < model.adapters(); ++adapter)
    elements += model.adapter_parameters(adapter).weight_elements;
  memory.parameters = elements * size_of(setup.model.precision.compute);
  memory.cache = model.cache_bytes();
  memory.queues =
      static_cast<std::size_t>(setup.needs.activation_slots) * align_up(lane_tensor(setup, InputKind::activation).bytes()) +
      static_cast<std::size_t>(setup.mirrors) * align_up(hidden_bytes(setup)) +
      OutgoingLinks::memory(setup.links, hidden_bytes(setup)) + setup.group_bytes;
  const bool on_gpu = setup.device != nullptr && setup.device->id().kind == DeviceKind::cuda;
  const std::size_t logits = logits_bytes(setup, model);
  memory.workspace = model.workspace_bytes() + (on_gpu ? logits + gpu_scratch_estimate(setup) : 2 * logits);
  return memory;
}

}  // namespace

GenerationMemory estimate_memory(const GenerationRankSetup& setup) {
  const auto ops = make_measuring_ops();
  return memory_of(setup, StageInference(setup.model, {setup.tensor.get(), false}, *ops));
}

GenerationRank::GenerationRank(GenerationRankSetup setup)
    : ComputeRank(*setup.device, setup.rank, "s" + std::to_string(setup.id.pp) + "r" + std::to_string(setup.id.tp)),
      setup_(std::move(setup)),
      lanes_(setup_, hidden_bytes(setup_), stream()) {
  ops_ = on_gpu() ? make_cuda_ops(stream(), true) : make_cpu_ops(stream());
  model_ = std::make_unique<StageInference>(setup_.model, tensor_parallel(), *ops_);
  const Tensor weights = load(model_->parameters(), *setup_.weights, "parameters", weights_);
  std::vector<Tensor> adapters;
  adapters_.resize(model_->adapters());
  for (std::size_t i = 0; i < adapters_.size(); ++i)
    adapters.push_back(load(model_->adapter_parameters(i), *setup_.adapter_weights[i], "adapter", adapters_[i]));
  setup_.weights = nullptr;
  setup_.adapter_weights.clear();
  caches_ = allocate(model_->cache_bytes(), "key-value cache");
  workspace_ = allocate(model_->workspace_bytes(), "workspace");
  model_->bind(weights, adapters, caches_.data(), workspace_.data());
  if (model_->has_head()) allocate_logits();
  streams().add(lanes_.streams());
}

Buffer GenerationRank::allocate(std::size_t bytes, const std::string& what) {
  return setup_.device->allocate(bytes, to_string(setup_.id) + ": " + what);
}

Tensor GenerationRank::load(const ParameterLayout& layout, const WeightSource& source, const std::string& what,
                            Buffer& memory) {
  const DType type = setup_.model.precision.compute;
  memory = allocate(layout.weight_elements * size_of(type), what);
  const Tensor arena{memory.data(), {static_cast<std::int64_t>(layout.weight_elements)}, type};
  stream().zero(arena);
  load_weights(source, layout, stream(), arena);
  return arena;
}

void GenerationRank::allocate_logits() {
  logits_ = {nullptr, {setup_.model.caches, model_->logits_columns()}, setup_.model.precision.compute};
  logits_host_ = logits_;
  logits_memory_ = allocate(logits_.bytes(), "logits");
  logits_host_memory_ = setup_.device->allocate_host(logits_.bytes(), to_string(setup_.id) + ": logits");
  logits_.data = logits_memory_.data();
  logits_host_.data = logits_host_memory_.data();
}

Lane GenerationRank::make_lane(InputKind kind, int) { return lanes_.make(lane_tensor(setup_, kind)); }

void GenerationRank::begin_step(const StepInfo& step) {
  if (!step.content) throw Error(ErrorKind::internal, to_string(setup_.id) + ": an empty step");
  runs_ = sequence_runs(*step.content, {setup_.model.caches, setup_.model.positions, setup_.model.config.vocabulary,
                                        static_cast<int>(setup_.model.adapters.size())});
}

void GenerationRank::run(const Launch& launch) {
  lanes_.wait_for_inputs(launch);
  RankLanes::Output output;
  const SequenceRun& run = runs_.at(static_cast<std::size_t>(launch.action.microbatch));
  if (!run.ids.empty()) {
    output = compute(launch.action.microbatch, run, launch);
  } else if (launch.output) {
    const auto lane = static_cast<std::size_t>(setup_.lane);
    // The shape limits what goes to another process.
    launch.output->lanes[lane].tensor.shape = {1, setup_.model.config.hidden};
    mark_ready(stream(), *launch.output, lane);
  }
  lanes_.pass_on(launch, output);
}

RankLanes::Output GenerationRank::compute(int sequence, const SequenceRun& run, const Launch& launch) {
  const auto count = static_cast<std::int64_t>(run.ids.size());
  const Tensor input = lanes_.tensor(launch.activation);
  if (!launch.output) {
    const Tensor logits = logits_.row_range(sequence, sequence + 1);
    model_->forward({sequence, run.adapter, run.first, input.row_range(0, count), logits, run.length});
    stream().copy(logits_host_.row_range(sequence, sequence + 1).data, logits.data, logits.bytes());
    return {};
  }
  const RankLanes::Output output = lanes_.begin_output(launch, {count, setup_.model.config.hidden});
  model_->forward({sequence, run.adapter, run.first, input.row_range(0, count), output.target, run.length});
  return output;
}

void GenerationRank::fail(std::exception_ptr cause) {
  streams().fail(cause);
  if (setup_.tensor) setup_.tensor->abort(cause);
  streams().release_callbacks();
}

std::size_t GenerationRank::logits_count() const {
  return static_cast<std::size_t>(own_rows(setup_.model.config.vocabulary, tensor_parallel()).count);
}

void GenerationRank::read_logits(int sequence, float* out) const {
  const std::size_t count = logits_count();
  const Tensor row = logits_host_.row_range(sequence, sequence + 1);
  if (row.dtype == DType::f32) {
    std::copy(row.as<float>(), row.as<float>() + count, out);
    return;
  }
  const auto* bits = row.as<std::uint16_t>();
  std::transform(bits, bits + count, out, [](std::uint16_t value) { return std::bit_cast<float>(std::uint32_t{value} << 16); });
}

}  // namespace pipetrain
