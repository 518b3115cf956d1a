// The continuations of prompts by transformers with the golden models (tests/golden/generate.py), and jobs that compute them.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "actors/generation/decoding.hpp"
#include "actors/generation/generator.hpp"

namespace pipetrain::testing {

using Ids = std::vector<std::int32_t>;

const nlohmann::json& golden_texts();  // {"model", "config", "new_tokens", "answers": [{"prompt", "answer", "logits"}]}
std::vector<Ids> prompts_of(const nlohmann::json& one);
// Runs on CPUs, with two sequences at the same time.
GenerationJob golden_job(const nlohmann::json& one, int pp, int tp);

std::vector<Ids> decoded(Generator& generator, const std::vector<Ids>& prompts, const Decoding& decoding);
std::vector<Ids> answers_of(const GenerationJob& job, const std::vector<Ids>& prompts, const Decoding& decoding);
// Returns the logits of the last of these runs of the first sequence.
std::vector<float> logits_after(Generator& generator, const std::vector<SequenceRun>& runs);
// Returns the ids in runs of one position, after a first run of two.
std::vector<SequenceRun> singly(const Ids& ids);

}  // namespace pipetrain::testing
