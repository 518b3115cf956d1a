// The part of a transformer that one rank of one stage computes when text is generated: forward only, a sequence's next
// positions at a time, with the keys and values of its earlier ones in a cache (Pope et al. 2022). Everything is enqueued on
// the Ops' stream; memory is the caller's. Not thread-safe.
//
// A sequence is computed alone, so that what a prompt gives depends neither on others nor on how the model is cut into stages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/buffer.hpp"
#include "model/blocks/block_compute.hpp"
#include "model/config/config.hpp"
#include "model/config/precision.hpp"
#include "model/parameters/parameters.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

struct InferenceSpec {
  ModelConfig config;
  std::vector<Block> blocks;   // the run of them that this stage holds
  int caches = 1;              // sequences at the same time
  std::int64_t positions = 1;  // of one sequence, at most
  std::int64_t run = 1;        // positions of one forward, at most
  Precision precision = {};
};

struct InferenceArgs {
  int cache = 0;           // whose sequence
  std::int64_t first = 0;  // of the positions; those before it have been computed since the sequence began
  Tensor input;            // [T] i32 ids for the first stage, else [T, H]
  Tensor output;           // [T, H]; of the last stage [1, logits_columns()], the last position's
};

class StageInference {
 public:
  // The Ops (and the group) must outlive it. To learn sizes only, pass measuring Ops and do not bind. Throws Error(input) as
  // layout_parameters() does. The norms work on all positions on every rank: tp is without sequence parallelism.
  StageInference(const InferenceSpec& spec, const TensorParallel& tp, Ops& ops);

  const ParameterLayout& parameters() const { return layout_; }
  bool has_head() const { return layout_.blocks.back().block.kind == BlockKind::head; }
  // Of this rank: its rows of the vocabulary, and zeros up to whole vectors. Only where has_head().
  std::int64_t logits_columns() const;
  std::size_t cache_bytes() const;
  std::size_t workspace_bytes() const { return rotary_bytes_ + workspace_peak_; }

  // The arena of parameters(), flat, in the type that is computed in; memory of at least cache_bytes() and workspace_bytes().
  // Called once, before the first forward; waits for the stream where positions are rotary.
  void bind(const Tensor& weights, void* caches, void* workspace);
  void forward(const InferenceArgs& args);

 private:
  Shape cache_shape() const;
  Tensor cache(int sequence, std::size_t attention_block) const;
  void bind_blocks(const Tensor& weights);
  void run(Ops& ops, Arena& workspace, const InferenceArgs& args);
  std::size_t measure();

  InferenceSpec spec_;
  TensorParallel tp_;
  Ops& ops_;
  ParameterLayout layout_;
  std::vector<std::unique_ptr<BlockCompute>> blocks_;
  std::size_t attention_blocks_ = 0;
  std::size_t workspace_peak_ = 0;
  RotaryTables rotary_;           // without memory where positions are learned
  std::size_t rotary_bytes_ = 0;  // of a whole number of alignments
  char* caches_ = nullptr;
  Arena workspace_;
};

}  // namespace pipetrain
