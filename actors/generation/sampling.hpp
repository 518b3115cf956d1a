// Chooses the next token from the logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pipetrain {

// Applied in this order, each as Hugging Face's transformers defines it.
struct Sampling {
  // Positive logits of ids that the sequence already has are divided by it, negative ones multiplied (Keskar et al. 2019);
  // 1: off.
  double repetition_penalty = 1;
  double temperature = 0;  // divides the logits; 0: the most likely token, without top_k and top_p
  std::int64_t top_k = 0;  // keeps only logits as large as the top_k-th largest (Fan et al. 2018); 0: off
  // Keeps only the most likely tokens that together reach this probability, at least one (Holtzman et al. 2020); 1: off.
  double top_p = 1;
  std::uint64_t seed = 0;

  bool is_greedy() const { return temperature == 0; }
};

// The identity of a random number among all those of a seed.
struct Draw {
  std::size_t prompt = 0;     // counted from 0
  std::int64_t position = 0;  // of the token to choose
};
// Returns a number uniform in [0, 1): a pure function of its arguments.
double random_number(std::uint64_t seed, const Draw& draw);

// Changes the logits. The first of equally likely tokens is taken. ids: the sequence so far, all below logits.size().
// Throws Error(numeric) when no logit is finite or some are NaN.
std::int32_t choose_token(const Sampling& sampling, std::vector<float>& logits, std::span<const std::int32_t> ids,
                          const Draw& draw);

}  // namespace pipetrain
