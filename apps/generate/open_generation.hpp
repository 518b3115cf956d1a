// From the options of a generation to what a Generator runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/generation/decoding.hpp"
#include "actors/generation/generation_job.hpp"
#include "apps/generate/generate_options.hpp"
#include "apps/processes/joined_run.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

// What the options name, opened: in process 0 of several only, but for the model.
struct OpenPrompts {
  ModelConfig config;
  std::unique_ptr<Tokenizer> tokenizer;  // null: bytes are tokens
  std::vector<std::vector<std::int32_t>> prompts;
  std::size_t longest = 0;
  Decoding decoding;
};

// The process among those of its run, which all have joined; null where it is alone, and for a dry run. Throws Error.
std::unique_ptr<JoinedRun> join_run(const GenerateOptions& options);

// The job, but without weights for a dry run. Over several processes (`joined` is not null) all return, or all throw. Throws
// Error; adds to `notes`.
GenerationJob open_job(const GenerateOptions& options, JoinedRun* joined, OpenPrompts& open, std::vector<std::string>& notes);

}  // namespace pipetrain
