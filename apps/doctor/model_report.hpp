// Reports what this program understands and what it refuses of a model on disk.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipetrain {

// The report's lines, each with a name such as "keys", and the lines of everything that is refused.
struct ModelReport {
  struct Fact {
    std::string name, text;
  };
  std::vector<Fact> facts;
  bool loads = true;  // false where something is refused
};

// Reads config.json, the headers of the weights, the tokenizer and the chat template, and goes on after a refusal where the
// readers allow it. The weights' values are not read. Throws Error for failures that are not of the model.
ModelReport report_model(const std::filesystem::path& model);

}  // namespace pipetrain
