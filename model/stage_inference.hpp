// The part of a transformer that one rank of one stage computes when text is generated. It runs forwards only,
// for a sequence's next positions at a time, with the keys and values of the earlier ones in a cache (Pope et
// al. 2022). All work is enqueued on the Ops' stream; memory is the caller's. Not thread-safe.
//
// Each sequence is computed alone, so that the result for a prompt depends neither on other prompts nor on how
// the model is cut into stages. Sequences may use different adapters of the model, whose own weights are in memory once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/buffer.hpp"
#include "model/blocks/block_compute.hpp"
#include "model/config/config.hpp"
#include "model/config/precision.hpp"
#include "model/inference_blocks.hpp"
#include "model/parameters/parameters.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

struct InferenceSpec {
  ModelConfig config;                      // without adapters
  std::vector<ModelConfig> adapters = {};  // the same model with each of its adapters
  std::vector<Block> blocks;               // the range of blocks that this stage holds
  int caches = 1;                          // the number of sequences at the same time
  std::int64_t positions = 1;              // the most positions of one sequence
  std::int64_t run = 1;                    // the most positions of one forward
  Precision precision = {};
};

struct InferenceArgs {
  int cache = 0;           // the sequence's cache
  int adapter = 0;         // the number of the sequence's adapter from 1 on; 0: the model without adapters
  std::int64_t first = 0;  // the first of the positions; those before it have been computed since the sequence began
  Tensor input;            // [T] i32 ids for the first stage, else [T, H]
  Tensor output;           // [T, H]; for the last stage [1, logits_columns()]: the last position's logits
  // The positions of the whole text, by which longrope chooses its factors; 0: the text ends with these positions. The earlier
  // positions have been computed with the same choice.
  std::int64_t length = 0;
};

class StageInference {
 public:
  // The Ops (and the group) must outlive it. To learn sizes only, pass measuring Ops and do not bind. Throws Error(input) as
  // layout_parameters() does. The norms work on all positions on every rank: tp must be without sequence parallelism.
  StageInference(const InferenceSpec& spec, const TensorParallel& tp, Ops& ops);

  const ParameterLayout& parameters() const { return models_.front().parameters(); }
  // Returns what the adapter adds to the parameters or replaces. adapter: its number from 0 on.
  const ParameterLayout& adapter_parameters(std::size_t adapter) const { return models_.at(adapter + 1).adapter(); }
  std::size_t adapters() const { return models_.size() - 1; }
  bool has_head() const { return parameters().blocks.back().block.kind == BlockKind::head; }
  // Returns this rank's rows of the vocabulary, padded to whole vectors. Only if has_head().
  std::int64_t logits_columns() const;
  std::size_t cache_bytes() const;
  std::size_t workspace_bytes() const { return rotary_bytes_ + short_rotary_bytes_ + workspace_peak_; }

  // weights: the flat arena of parameters(), in the compute type; adapters: those of adapter_parameters(). The memory has at
  // least cache_bytes() and workspace_bytes(). Called once, before the first forward; waits for the stream if positions are
  // rotary.
  void bind(const Tensor& weights, const std::vector<Tensor>& adapters, void* caches, void* workspace);
  void forward(const InferenceArgs& args);

 private:
  Shape cache_shape() const;
  Tensor cache(int sequence, std::size_t attention_block) const;
  void bind_blocks(const Tensor& weights, const std::vector<Tensor>& adapters);
  void run(Ops& ops, Arena& workspace, const InferenceArgs& args);
  std::size_t measure();
  const RotaryTables& rotary_of(std::int64_t length) const { return length <= short_positions_ ? short_rotary_ : rotary_; }

  InferenceSpec spec_;
  TensorParallel tp_;
  Ops& ops_;
  std::vector<InferenceBlocks> models_;  // the model without adapters, then with each of them
  std::size_t attention_blocks_ = 0;
  std::size_t workspace_peak_ = 0;
  RotaryTables rotary_;                                    // without memory where positions are learned
  RotaryTables short_rotary_;                              // for texts of at most short_positions_
  std::int64_t short_positions_ = 0;                       // 0: rotary_ serves all texts
  std::size_t rotary_bytes_ = 0, short_rotary_bytes_ = 0;  // of a whole number of alignments
  char* caches_ = nullptr;
  Arena workspace_;
};

}  // namespace pipetrain
