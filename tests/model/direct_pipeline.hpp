// Runs the StageModels of every stage and tensor-parallel rank in plain loops: the model without actors. All streams
// are asynchronous, so one host thread issues the work of all ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "core/process_group.hpp"
#include "model/optimizer/optimizer.hpp"
#include "model/parameters/gradient_norm.hpp"
#include "model/stage_model.hpp"
#include "model/weights/full_tensors.hpp"

namespace pipetrain::test {

using Chunks = std::vector<std::vector<Block>>;

// Cuts the model's blocks before these positions.
Chunks cut_blocks(const ModelConfig& config, const std::vector<std::size_t>& positions);

struct Microbatch {
  std::vector<std::int32_t> ids, targets;
  std::optional<DropoutDraws> draws = {};
  std::vector<std::int32_t> documents = {};  // as in ForwardArgs; empty: a sample is one document
};

struct PipelineSetup {
  ModelConfig config;
  std::vector<Chunks> stages;  // chunks of each stage; empty: one chunk of all blocks
  MicrobatchShape shape;
  int tp = 1;
  bool sequence_parallel = false;
  int slots = 1;          // microbatches in flight
  bool isolated = false;  // run_step's microbatches have documents of 1 to 3 tokens
  Recompute recompute = Recompute::none;
  std::optional<std::int64_t> recompute_layers = {};
  int loss_chunks = 1;
  bool tells_scale = false;             // run_step's forwards get the scale of the losses
  DeviceKind device = DeviceKind::cpu;  // with cuda, tp must be 1
};

class DirectPipeline {
 public:
  DirectPipeline(PipelineSetup setup, const WeightSource& weights);
  ~DirectPipeline();

  // Starts the gradients anew.
  void begin_step();
  // Runs one microbatch through all chunks; slot < setup.slots. loss_scale: the backward's, if the head is to know it.
  void forward(int slot, const Microbatch& microbatch, std::optional<float> loss_scale = {});
  void backward(int slot, float loss_scale);
  void input_grad(int slot, float loss_scale);
  void weight_grad(int slot);
  // Returns the sum of cross-entropies of the slot's last forward; all ranks agree on it.
  double loss_sum(int slot);

  // Runs the sums before the norm: over replicated and tied gradients.
  void complete_grads();
  std::vector<NormPart> norm_parts();
  void optimize(const OptimizerSettings& settings, const OptimizerStep& step);

  Tensors grads();
  Tensors weights();
  // Adds to one logical tensor's weights, on the ranks that hold it.
  void shift_weights(const std::string& name, const std::vector<float>& change);
  std::vector<ActivationBytes> activation_bytes() const;  // of every chunk, rank 0

 private:
  struct Stage;
  struct Rank;
  struct Position {  // a virtual stage: the location of the model's next blocks
    std::size_t stage;
    int chunk;
  };
  enum class Arena { weights, grads };

  TensorParallel tensor_parallel(int rank) const;
  void synchronize();
  void exchange_tied_grads(Rank& rank);
  void run_backward(int slot, float loss_scale, bool split);
  Tensors collect(Arena arena);

  PipelineSetup setup_;
  std::vector<Position> positions_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace pipetrain::test
