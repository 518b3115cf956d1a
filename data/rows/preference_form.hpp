// The rows that preference losses learn from.
#pragma once

namespace pipetrain {

enum class PreferenceForm {
  pairs,     // {"prompt", "chosen", "rejected"}
  labelled,  // {"prompt", "completion", "label"}, the label true or false
};

// Says how such rows become samples: one after the other the completions of a pair, or one completion.
struct PreferenceReading {
  PreferenceForm form = PreferenceForm::pairs;
  // The prompts of chosen completions have context labels (core/labels/context_label.hpp) rather than labels that count
  // nowhere.
  bool counts_context = false;

  int sequences_per_row() const { return form == PreferenceForm::pairs ? 2 : 1; }
};

}  // namespace pipetrain
