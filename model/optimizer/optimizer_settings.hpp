// OptimizerSettings holds the name of the optimizer that updates the weights, and its factors: see
// optimizer.hpp. The defaults are AdamW's; default_settings() has those of the others. Each optimizer uses some of them.
#pragma once

#include <cstdint>
#include <string>

namespace pipetrain {

// How Muon scales its update of a matrix [rows, columns].
enum class MuonRate {
  original,         // by sqrt(max(1, rows / columns)) (Jordan et al. 2024)
  match_rms_adamw,  // by 0.2 sqrt(max(rows, columns)), so that AdamW's rates serve it (Liu et al. 2025, "Muon is Scalable")
};

struct OptimizerSettings {
  std::string name = "adamw";
  float beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F, weight_decay = 0.1F;
  float beta3 = 0.9999F;      // of CAME's squared deviations
  float beta2_decay = -0.8F;  // Adafactor: beta2 of step t is 1 - t^beta2_decay
  float eps2 = 1e-3F;         // Adafactor: the least root mean square of weights. CAME: added to squared deviations
  float clip_threshold = 1;   // of an update's root mean square
  float momentum = 0;
  bool nesterov = false;
  std::int64_t galore_rank = 128;
  std::int64_t galore_gap = 200;  // steps between two computations of the projection
  float galore_scale = 0.25F;
  MuonRate muon_rate = MuonRate::match_rms_adamw;
};

}  // namespace pipetrain
