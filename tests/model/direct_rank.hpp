// One tensor-parallel rank of a DirectPipeline: its share of every stage, and memory for each microbatch in flight.
#pragma once

#include <memory>
#include <vector>

#include "core/buffer.hpp"
#include "model/direct_pipeline.hpp"

namespace pipetrain::test {

// Memory full of NaNs, so that reads of unwritten values show. It is host memory, which a GPU can access as well.
Buffer poisoned(Device& device, std::size_t bytes);
inline Tensor over(const Buffer& buffer, const Shape& shape, DType dtype) { return {buffer.data(), shape, dtype}; }

struct DirectPipeline::Stage {
  std::unique_ptr<Ops> ops;
  std::unique_ptr<StageModel> model;
  Buffer weight_memory, grad_memory, m_memory, v_memory, workspace;
  std::unique_ptr<ResidentParameters> parameters;
  OptimizerArenas arenas;

  Stage(const PipelineSetup& setup, const Chunks& chunks, Device& device, Stream& stream, const TensorParallel& tp);
};

struct DirectPipeline::Rank {
  struct ChunkMemory {
    Buffer saved, pending, input, input_grad;
    std::unique_ptr<ActivationSlot> slot;
  };
  struct SlotMemory {
    std::vector<ChunkMemory> chunks;  // by position
    Buffer ids, targets, documents, loss_sum;
  };

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::vector<Stage> stages;
  std::vector<SlotMemory> slots;
  Shape hidden;

  Rank(const PipelineSetup& setup, const std::vector<Position>& positions, const TensorParallel& tp,
       const WeightSource& weights);

  SlotMemory& slot(int index) { return slots.at(static_cast<std::size_t>(index)); }
  Tensor hidden_over(const Buffer& buffer) const { return over(buffer, hidden, DType::f32); }

 private:
  SlotMemory make_slot(const PipelineSetup& setup, const std::vector<Position>& positions);
};

}  // namespace pipetrain::test
