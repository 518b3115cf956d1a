// Describes a step of a run that trains on preferences: the samples and the weights of a forward pass, or the facts of a
// training step's sequences. StepInfo::content carries it to the sources and computes of all processes.
#pragma once

#include <memory>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "ops/preference.hpp"

namespace pipetrain {

class StepSamples;

struct PreferencePass {
  bool on_training_data = false;          // of a forward pass: samples of the training step with the same number
  bool in_order = false;                  // of those, each sample once, in the order of the data
  bool mismatched = false;                // each prompt with the completion of the sample before it in the step
  bool by_reference = false;              // with the weights of the reference
  bool frees_reference = false;           // no later step uses the reference
  std::vector<SequenceFacts> facts = {};  // of the global batch, in its order; empty for a forward pass
};

// Sets the step's content.
void add_to(StepInfo& step, const PreferencePass& pass);
// For runs with a loss of preferences alone, as content has another meaning in others; no content: a pass without flags and
// facts.
PreferencePass preference_pass_of(const StepInfo& step);

// Returns the samples that the step of such a run reads. evaluation may be null where nothing is evaluated.
std::shared_ptr<const StepSamples> samples_of(const StepInfo& step, const std::shared_ptr<const StepSamples>& training,
                                              const std::shared_ptr<const StepSamples>& evaluation);

}  // namespace pipetrain
