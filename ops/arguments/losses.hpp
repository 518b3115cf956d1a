// The arguments of losses, and of sums over sequences.
#pragma once

#include <optional>

#include "core/tensor.hpp"
#include "ops/arguments/embedding.hpp"
#include "ops/preference.hpp"
#include "ops/tensor_parallel.hpp"

namespace pipetrain {

struct CrossEntropyBackwardArgs {
  Tensor logits;   // [T, V] or more columns, in place
  Tensor targets;  // [T] i32; negative: not counted
  VocabularyRows vocabulary;
  Tensor log_sum_exp;  // [T] f32, the forward's
  float scale;
  std::optional<Tensor> token_scales = {};  // [T] f32: a further factor for each token
};

struct CrossEntropyArgs {
  TensorParallel tp = {};
  Tensor logits;              // [T, V] for this rank's rows of the vocabulary; further columns do not count
  Tensor targets;             // [T] i32; negative: not counted
  VocabularyRows vocabulary;  // this rank's
  Tensor log_sum_exp;         // [T] f32, output: over the whole vocabulary
  Tensor loss_sum;            // [1] f64, output
  // If given, the logits are overwritten with their gradient, as cross_entropy_backward computes it with this scale.
  std::optional<float> gradient_scale = {};
  std::optional<Tensor> token_losses = {};  // [T] f32, output: the terms of the sum, 0 for tokens that are not counted

  CrossEntropyBackwardArgs backward() const { return {logits, targets, vocabulary, log_sum_exp, gradient_scale.value()}; }
};

// Sequences are ranges of equal length. Targets of at least 0 count in a sequence's completion, and context labels
// (core/labels/context_label.hpp) in its context.
struct ContextTargetsArgs {
  Tensor targets;  // [T] i32
  Tensor out;      // [T] i32, output
};

struct SequenceSumsArgs {
  Tensor token_losses;  // [T] f32
  Tensor targets;       // [T] i32
  Tensor sums;          // [batch, 2] f64, output: of the completion, of the context
};

struct PreferenceScalesArgs {
  PreferenceFormula formula;
  Tensor sums;     // [batch, 2] f64: of whole sequences
  Tensor facts;    // [batch, preference_facts] f64: SequenceFacts
  Tensor targets;  // [T] i32
  Tensor scales;   // [T] f32, output
};

struct CountedRowsArgs {
  Tensor logits;   // [T, C] or more columns
  Tensor targets;  // [T] i32
  Tensor rows;     // [batch, C] f64, output
};

}  // namespace pipetrain
