// Turns the options of a generation into the job that a Generator runs.
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

// The opened files that the options name. Processes other than process 0 have the model only.
struct OpenPrompts {
  ModelConfig config;  // without adapters
  std::vector<GenerationAdapter> adapters;
  std::unique_ptr<Tokenizer> tokenizer;  // null: bytes are tokens
  std::vector<std::vector<std::int32_t>> prompts;
  std::size_t longest = 0;
  Decoding decoding;
};

// Joins this process with the others of its run, and waits for all of them; null if it is alone, and for a dry run.
// Throws Error.
std::unique_ptr<JoinedRun> join_run(const GenerateOptions& options);

// Makes the job, without weights for a dry run. Over several processes (`joined` is not null) all return, or all throw.
// Throws Error; adds to `notes`.
GenerationJob open_job(const GenerateOptions& options, JoinedRun* joined, OpenPrompts& open, std::vector<std::string>& notes);

}  // namespace pipetrain
