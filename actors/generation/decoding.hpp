// Continues prompts token by token until each has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "actors/generation/generator.hpp"
#include "actors/generation/sampling.hpp"

namespace pipetrain {

struct Decoding {
  Sampling sampling;
  std::int64_t max_new_tokens = 1;    // of each prompt
  std::vector<std::int32_t> end_ids;  // any of these ends a sequence
  std::vector<int> adapters = {};     // of each prompt, see SequenceRun; empty: none has one
};

enum class SequenceEnd { end_of_text, length };

// Receives the results on the caller's thread. An exception from it ends the decoding.
class DecodingEvents {
 public:
  virtual ~DecodingEvents() = default;
  // Receives the next token of the prompt, except one that ends it. Prompts count from 0.
  virtual void token(std::size_t prompt, std::int32_t id) = 0;
  virtual void ended(std::size_t prompt, SequenceEnd how) = 0;
  // Asked before every step; false ends the decoding at once.
  virtual bool continues() { return true; }
};

// Each prompt must have at least one id, all in the model's vocabulary, and together with max_new_tokens at most the
// generator's positions. The generator's places all work at once; the continuation of a prompt depends only on the
// prompt, its number and `decoding`. Throws RunFailed and Error(numeric).
void decode_prompts(Generator& generator, const std::vector<std::vector<std::int32_t>>& prompts, const Decoding& decoding,
                    DecodingEvents& events);

}  // namespace pipetrain
