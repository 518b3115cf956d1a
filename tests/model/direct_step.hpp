// One training step of a small model through a DirectPipeline, and the results that are compared between steps.
#pragma once

#include "model/direct_pipeline.hpp"
#include "model/families/small_config.hpp"

namespace pipetrain::test {

std::vector<Microbatch> random_microbatches(const ModelConfig& config, const MicrobatchShape& shape, int count);

// Cuts its samples into documents of 1 to 3 tokens.
void isolate(const MicrobatchShape& shape, Microbatch& microbatch);

struct Result {
  std::vector<double> losses;
  Tensors grads, weights;
  double norm = 0;
  bool operator==(const Result&) const = default;
};

constexpr float scale = 0.01F;  // of the losses

// Runs one step with each microbatch's actions one after the other; splits: I and W instead of B.
Result run_step(const PipelineSetup& setup, int microbatches, bool splits = false);

PipelineSetup small_setup(int tp = 1, bool sequence_parallel = false, Family family = Family::llama);

// Adds dropout rates, which a Llama's config.json cannot contain, where no norm or scale comes next.
PipelineSetup with_dropout(PipelineSetup setup);
inline PipelineSetup isolated(PipelineSetup setup) {
  setup.isolated = true;
  return setup;
}

}  // namespace pipetrain::test
