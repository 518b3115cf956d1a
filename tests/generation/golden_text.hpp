// What transformers wrote on from prompts with the golden models (tests/golden/generate.py), and the jobs that do the same.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "actors/generation/decoding.hpp"
#include "actors/generation/generator.hpp"

namespace pipetrain::testing {

using Ids = std::vector<std::int32_t>;

const nlohmann::json& golden_texts();  // {"model", "config", "new_tokens", "answers": [{"prompt", "answer", "logits"}]}
std::vector<Ids> prompts_of(const nlohmann::json& one);
// On CPUs, with two sequences at the same time.
GenerationJob golden_job(const nlohmann::json& one, int pp, int tp);

std::vector<Ids> decoded(Generator& generator, const std::vector<Ids>& prompts, const Decoding& decoding);
std::vector<Ids> answers_of(const GenerationJob& job, const std::vector<Ids>& prompts, const Decoding& decoding);
// Of the last of these runs of the first sequence.
std::vector<float> logits_after(Generator& generator, const std::vector<SequenceRun>& runs);
// The ids in runs of one, after a first of two.
std::vector<SequenceRun> singly(const Ids& ids);

}  // namespace pipetrain::testing
