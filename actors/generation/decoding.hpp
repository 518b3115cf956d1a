// Goes on with prompts, token by token, until each has ended.
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
  std::vector<std::int32_t> end_ids;  // a sequence ends with any of them
};

enum class SequenceEnd { end_of_text, length };

// Hears what comes, on the caller's thread. What it throws ends the decoding.
class DecodingEvents {
 public:
  virtual ~DecodingEvents() = default;
  // The next token of the prompt, but for one that ends it. Prompts counted from 0.
  virtual void token(std::size_t prompt, std::int32_t id) = 0;
  virtual void ended(std::size_t prompt, SequenceEnd how) = 0;
  // Asked before every step; false ends the decoding, whatever has not ended.
  virtual bool goes_on() { return true; }
};

// Each prompt has an id or more, all of the model's vocabulary, and no more than the generator's positions together with
// max_new_tokens. As many are under way as the generator has places; what a prompt gives depends on it, its number and the
// decoding alone. Throws RunFailed and Error(numeric).
void decode_prompts(Generator& generator, const std::vector<std::vector<std::int32_t>>& prompts, const Decoding& decoding,
                    DecodingEvents& events);

}  // namespace pipetrain
