#include "actors/generation/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "core/error.hpp"
#include "core/philox.hpp"

namespace pipetrain {
namespace {

constexpr float never = -std::numeric_limits<float>::infinity();

void penalize(double penalty, std::span<const std::int32_t> ids, std::vector<float>& logits) {
  std::vector<std::int32_t> distinct(ids.begin(), ids.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (const std::int32_t id : distinct) {
    float& logit = logits[static_cast<std::size_t>(id)];
    logit = static_cast<float>(logit < 0 ? logit * penalty : logit / penalty);
  }
}

void keep_top_k(std::int64_t top_k, std::vector<float>& logits) {
  if (top_k <= 0 || top_k >= std::ssize(logits)) return;
  std::vector<float> sorted = logits;
  std::nth_element(sorted.begin(), sorted.begin() + (top_k - 1), sorted.end(), std::greater<>());
  const float least = sorted[static_cast<std::size_t>(top_k - 1)];
  for (float& logit : logits) {
    if (logit < least) logit = never;
  }
}

// Returns exp(logit - largest logit), so the largest weight is 1.
std::vector<double> weights_of(const std::vector<float>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> weights(logits.size());
  std::transform(logits.begin(), logits.end(), weights.begin(),
                 [largest](float logit) { return std::exp(static_cast<double>(logit) - largest); });
  return weights;
}

// Removes the least likely weights as long as the sum of the removed ones stays within 1 - top_p.
void keep_top_p(double top_p, std::vector<double>& weights) {
  if (top_p >= 1) return;
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return weights[a] < weights[b]; });
  const double most = (1 - top_p) * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    sum += weights[order[i]];
    if (sum > most) return;
    weights[order[i]] = 0;
  }
}

std::int32_t draw_token(const std::vector<double>& weights, double number) {
  const double target = number * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  std::size_t last = 0;
  for (std::size_t id = 0; id < weights.size(); ++id) {
    if (weights[id] == 0) continue;
    last = id;
    sum += weights[id];
    if (sum > target) break;
  }
  return static_cast<std::int32_t>(last);
}

void check_finite(const std::vector<float>& logits, const Draw& draw) {
  const bool any_nan = std::any_of(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); });
  const bool any_finite = std::any_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); });
  if (any_finite && !any_nan) return;
  throw Error(ErrorKind::numeric, "the logits of position " + std::to_string(draw.position) + " of prompt " +
                                      std::to_string(draw.prompt + 1) + " are NaN or infinite; look at the model's weights");
}

}  // namespace

double random_number(std::uint64_t seed, const Draw& draw) {
  const std::uint64_t prompt = draw.prompt;
  const auto low = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const auto high = [](std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); };
  PhiloxWords<1> words{{{low(static_cast<std::uint64_t>(draw.position))}, {low(prompt)}, {high(prompt)}, {0}}};
  philox<1>({low(seed), high(seed)}, words);
  const std::uint64_t bits = (std::uint64_t{words[0][0]} << 32 | words[1][0]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

std::int32_t choose_token(const Sampling& sampling, std::vector<float>& logits, std::span<const std::int32_t> ids,
                          const Draw& draw) {
  check_finite(logits, draw);
  if (sampling.repetition_penalty != 1) penalize(sampling.repetition_penalty, ids, logits);
  if (sampling.is_greedy()) return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  for (float& logit : logits) logit = static_cast<float>(logit / sampling.temperature);
  keep_top_k(sampling.top_k, logits);
  std::vector<double> weights = weights_of(logits);
  keep_top_p(sampling.top_p, weights);
  return draw_token(weights, random_number(sampling.seed, draw));
}

}  // namespace pipetrain
