// The metrics of training on preferences.
#pragma once

#include <optional>

namespace pipetrain {

// Means over the pairs of a step or an evaluation, or over its desirable and its other completions; no value where there is
// none. Log-probabilities are of whole completions, with orpo per token. A reward is beta times the difference of the
// log-probabilities of the model and the reference, with orpo beta times the model's.
struct PreferenceMetrics {
  std::optional<double> chosen_reward, rejected_reward, margin;
  std::optional<double> accuracy;  // the share of pairs whose chosen reward is the larger one, 0 to 1
  std::optional<double> chosen_logp, rejected_logp;
  std::optional<double> kl;  // kto: the estimated divergence from the reference, at least 0
};

struct PreferenceField {
  const char* key;
  const char* title;
  std::optional<double> PreferenceMetrics::*value;
};
inline constexpr PreferenceField preference_fields[] = {
    {"reward_chosen", "reward of chosen", &PreferenceMetrics::chosen_reward},
    {"reward_rejected", "reward of rejected", &PreferenceMetrics::rejected_reward},
    {"reward_margin", "reward margin", &PreferenceMetrics::margin},
    {"reward_accuracy", "reward accuracy", &PreferenceMetrics::accuracy},
    {"logp_chosen", "log-probability of chosen", &PreferenceMetrics::chosen_logp},
    {"logp_rejected", "log-probability of rejected", &PreferenceMetrics::rejected_logp},
    {"kl", "divergence from the reference", &PreferenceMetrics::kl}};

}  // namespace pipetrain
