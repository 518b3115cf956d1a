// Finds the adapter by which each prompt is continued.
#pragma once

#include <vector>

#include "apps/generate/generate_options.hpp"
#include "data/prompts.hpp"

namespace pipetrain {

// Returns for each prompt the number of its adapter from 1 on, or 0 for the model without adapters. A prompt that names none
// has the only adapter, or the model if there is none. Throws Error(input) with the prompt's place for an unknown name, and for
// a prompt that names none of several.
std::vector<int> chosen_adapters(const std::vector<Prompt>& prompts, const std::vector<NamedAdapter>& adapters);

}  // namespace pipetrain
