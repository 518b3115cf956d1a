#include "model/direct_rank.hpp"

#include <cstring>

#include "core/device.hpp"
#include "model/flat_gradients.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain::test {

Buffer poisoned(Device& device, std::size_t bytes) {
  Buffer buffer = device.allocate_host(bytes, "a test");
  std::memset(buffer.data(), 0xff, buffer.bytes());
  return buffer;
}

Numerics numerics_of(const PipelineSetup& setup) {
  return {.recompute = setup.recompute, .recompute_layers = setup.recompute_layers, .loss_chunks = setup.loss_chunks};
}

DirectPipeline::Stage::Stage(const PipelineSetup& setup, const Chunks& chunks, Device& device, Stream& stream,
                             const TensorParallel& tp)
    : ops(setup.device == DeviceKind::cuda ? make_cuda_ops(stream) : make_cpu_ops(stream)),
      model(make_stage_model({setup.config, chunks, setup.shape, numerics_of(setup)}, tp, *ops)) {
  const ParameterLayout& layout = model->parameters();
  const auto arena = [&](Buffer& memory, std::size_t elements) {
    memory = poisoned(device, elements * sizeof(float));
    return over(memory, {static_cast<std::int64_t>(elements)}, DType::f32);
  };
  arenas.weights = arena(weight_memory, layout.weight_elements);
  arenas.grads = arena(grad_memory, layout.grad_elements);
  arenas.states = {arena(m_memory, layout.weight_elements), arena(v_memory, layout.weight_elements)};
  stream.zero(arenas.weights);
  for (const Tensor& state : arenas.states) stream.zero(state);
  parameters = std::make_unique<ResidentParameters>(layout, arenas.weights);
  model->bind(*parameters, gradients_in(layout, arenas.grads));
  workspace = poisoned(device, model->workspace_bytes());
  model->bind_workspace(workspace.data(), model->workspace_bytes());
}

DirectPipeline::Rank::Rank(const PipelineSetup& setup, const std::vector<Position>& positions, const TensorParallel& tp,
                           const WeightSource& weights)
    : device(setup.device == DeviceKind::cuda ? make_cuda_device(0) : make_cpu_device(0, 1)),
      stream(device->make_stream("test")) {
  for (const Chunks& chunks : setup.stages) {
    Stage& stage = stages.emplace_back(setup, chunks, *device, *stream, tp);
    stream->synchronize();  // the zeros must be there before the host writes between them
    for (const Parameter& parameter : stage.model->parameters().parameters) {
      weights.load(parameter, stage.arenas.weights.as<float>() + parameter.offset);
    }
  }
  hidden = stages.front().model->hidden_shape();
  for (int slot = 0; slot < setup.slots; ++slot) slots.push_back(make_slot(setup, positions));
}

DirectPipeline::Rank::SlotMemory DirectPipeline::Rank::make_slot(const PipelineSetup& setup,
                                                                 const std::vector<Position>& positions) {
  const std::size_t hidden_bytes = Tensor{nullptr, hidden, DType::f32}.bytes();
  const auto tokens = static_cast<std::size_t>(setup.shape.tokens());
  SlotMemory memory;
  memory.ids = poisoned(*device, tokens * sizeof(std::int32_t));
  memory.targets = poisoned(*device, tokens * sizeof(std::int32_t));
  memory.documents = poisoned(*device, tokens * sizeof(std::int32_t));
  memory.loss_sum = poisoned(*device, sizeof(double));
  for (const Position& at : positions) {
    const StageModel& model = *stages[at.stage].model;
    const ActivationBytes bytes = model.activation_bytes(at.chunk);
    ChunkMemory& chunk = memory.chunks.emplace_back();
    chunk.saved = poisoned(*device, bytes.saved);
    chunk.pending = poisoned(*device, bytes.pending);
    chunk.input = poisoned(*device, hidden_bytes);
    chunk.input_grad = poisoned(*device, hidden_bytes);
    chunk.slot = model.make_slot(at.chunk);
    model.set_saved(at.chunk, *chunk.slot, chunk.saved.data());
    model.set_pending(at.chunk, *chunk.slot, chunk.pending.data());
  }
  return memory;
}

}  // namespace pipetrain::test
