// Multi-token prediction: a module behind the last layer that predicts the token after the next one (DeepSeek-AI 2024,
// "DeepSeek-V3 Technical Report", section 2.2). It norms the model's final hidden state and the next token's embedding,
// projects the two side by side to the hidden size, and passes the result through one more layer and the model's own head.
#pragma once

#include <cstdint>

namespace pipetrain {

struct FurtherPrediction {
  std::int64_t layers = 0;  // the modules that config.json says the files have
  double loss = 0;          // a setting of training: the weight of the module's loss; 0: the run has no such module

  bool is_trained() const { return loss > 0; }
  bool operator==(const FurtherPrediction&) const = default;
};

}  // namespace pipetrain
