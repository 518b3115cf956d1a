#include "model/direct_step.hpp"

#include <random>

#include "model/weights/named_random_weights.hpp"

namespace pipetrain::test {

std::vector<Microbatch> random_microbatches(const ModelConfig& config, const MicrobatchShape& shape, int count) {
  std::mt19937 random(7);
  std::uniform_int_distribution<std::int32_t> token(0, static_cast<std::int32_t>(config.vocabulary) - 1);
  std::vector<Microbatch> microbatches(static_cast<std::size_t>(count));
  for (Microbatch& microbatch : microbatches) {
    microbatch.draws = {.seed = 5, .step = 3, .first_sample = (&microbatch - microbatches.data()) * shape.batch};
    for (std::int64_t i = 0; i < shape.tokens(); ++i) {
      microbatch.ids.push_back(token(random));
      microbatch.targets.push_back(i % 7 == 6 ? -1 : token(random));  // some are not counted
    }
  }
  return microbatches;
}

void isolate(const MicrobatchShape& shape, Microbatch& microbatch) {
  microbatch.documents.clear();
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    std::int64_t begin = 0, length = 1 + sample % 3;
    for (std::int64_t i = 0; i < shape.sequence; ++i) {
      if (i == begin + length) begin = i, length = length % 3 + 1;
      microbatch.documents.push_back(static_cast<std::int32_t>(begin));
    }
  }
}

Result run_step(const PipelineSetup& setup, int microbatches, bool splits) {
  DirectPipeline pipeline(setup, NamedRandomWeights());
  Result result;
  int next = 0;
  for (Microbatch microbatch : random_microbatches(setup.config, setup.shape, microbatches)) {
    if (setup.isolated) isolate(setup.shape, microbatch);
    const int slot = next++ % setup.slots;
    pipeline.forward(slot, microbatch, setup.tells_scale ? std::optional(scale) : std::nullopt);
    result.losses.push_back(pipeline.loss_sum(slot));
    if (splits) {
      pipeline.input_grad(slot, scale);
      pipeline.weight_grad(slot);
    } else {
      pipeline.backward(slot, scale);
    }
  }
  pipeline.complete_grads();
  result.norm = global_norm(pipeline.norm_parts());
  result.grads = pipeline.grads();
  pipeline.optimize({}, {.lr = 1e-2F});
  result.weights = pipeline.weights();
  return result;
}

PipelineSetup small_setup(int tp, bool sequence_parallel, Family family) {
  PipelineSetup setup;
  setup.config = small_config(false, family);
  setup.shape = {2, 5};
  setup.tp = tp;
  setup.sequence_parallel = sequence_parallel;
  return setup;
}

PipelineSetup with_dropout(PipelineSetup setup) {
  ModelConfig& config = setup.config;
  config.dropout.attention = 0.3;
  if (config.embedding_scale == 1) config.dropout.embedding = 0.2;
  if (config.residual_scale == 1 && !config.output_norms) config.dropout.residual = 0.25;
  return setup;
}

}  // namespace pipetrain::test
