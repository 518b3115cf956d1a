// Which token comes next, from the logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pipetrain {

// Applied in this order, each as Hugging Face's transformers defines it.
struct Sampling {
  double repetition_penalty = 1;  // of every id in the sequence: positive logits are divided by it, others multiplied (Keskar
                                  // et al. 2019); 1: off
  double temperature = 0;         // logits are divided by it; 0: the most likely token, and neither top_k nor top_p counts
  std::int64_t top_k = 0;         // only tokens with logits as large as the top_k-th largest (Fan et al. 2018); 0: off
  double top_p = 1;               // only the most likely tokens that together reach this probability, and always one (Holtzman
                                  // et al. 2020); 1: off
  std::uint64_t seed = 0;

  bool is_greedy() const { return temperature == 0; }
};

// Which of all the random numbers of a seed this one is.
struct Draw {
  std::size_t prompt = 0;     // counted from 0
  std::int64_t position = 0;  // of the token to choose
};
// Uniform in [0, 1): a pure function of its arguments.
double random_number(std::uint64_t seed, const Draw& draw);

// Changes the logits. Of equally likely tokens the first is taken. ids: the sequence so far, all below logits.size(). Throws
// Error(numeric) when no logit is finite or some are NaN.
std::int32_t choose_token(const Sampling& sampling, std::vector<float>& logits, std::span<const std::int32_t> ids,
                          const Draw& draw);

}  // namespace pipetrain
