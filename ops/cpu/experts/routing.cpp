// The router: the experts of each token, the order of the rows, and the gradient of the logits.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {
namespace {

// Writes the softmax of the logits, and returns their log_sum_exp.
float softmax(const float* logits, std::int64_t experts, float* probabilities) {
  const double largest = *std::max_element(logits, logits + experts);
  double sum = 0;
  for (std::int64_t e = 0; e < experts; ++e) sum += std::exp(logits[e] - largest);
  for (std::int64_t e = 0; e < experts; ++e) probabilities[e] = static_cast<float>(std::exp(logits[e] - largest) / sum);
  return static_cast<float>(largest + std::log(sum));
}

// Writes the experts with the largest scores, in ascending order.
void choose(const float* scores, std::int64_t experts, std::int32_t* chosen, std::int64_t count) {
  std::int32_t* const end = chosen + count;
  for (std::int32_t* next = chosen; next != end; ++next) {
    std::int32_t best = -1;
    for (std::int32_t e = 0; e < experts; ++e) {
      if ((best < 0 || scores[e] > scores[best]) && std::find(chosen, next, e) == next) best = e;
    }
    *next = best;
  }
  std::sort(chosen, end);
}

// Sets the places of dropped choices to -1, those of the others to 0.
void drop_beyond(const ExpertCapacity& capacity, const Routing& routing) {
  const std::int64_t choices = routing.experts.elements(), of_sequence = choices / capacity.batch;
  const auto* const experts = routing.experts.as<std::int32_t>();
  auto* const places = routing.places.as<std::int32_t>();
  std::fill_n(places, choices, 0);
  if (capacity.tokens == 0) return;
  std::vector<std::int64_t> taken;
  for (std::int64_t choice = 0; choice < choices; ++choice) {
    if (choice % of_sequence == 0) taken.assign(static_cast<std::size_t>(routing.probabilities.cols()), 0);
    if (++taken[static_cast<std::size_t>(experts[choice])] > capacity.tokens) places[choice] = -1;
  }
}

// Sorts the rows of choices that are not dropped by expert and then by token.
void sort_rows(const Routing& routing) {
  const std::int64_t tokens = routing.experts.rows(), chosen = routing.experts.cols();
  const auto* const experts = routing.experts.as<std::int32_t>();
  const auto* const places = routing.places.as<std::int32_t>();
  auto* const offsets = routing.offsets.as<std::int32_t>();
  std::fill_n(offsets, routing.offsets.elements(), 0);
  for (std::int64_t choice = 0; choice < tokens * chosen; ++choice)
    if (places[choice] >= 0) ++offsets[experts[choice] + 1];
  for (std::int64_t e = 1; e < routing.offsets.elements(); ++e) offsets[e] += offsets[e - 1];
  std::vector<std::int32_t> next(offsets, offsets + routing.offsets.elements());
  for (std::int64_t choice = 0; choice < tokens * chosen; ++choice) {
    if (places[choice] < 0) continue;
    const std::int32_t row = next[static_cast<std::size_t>(experts[choice])]++;
    routing.places.as<std::int32_t>()[choice] = row;
    routing.tokens.as<std::int32_t>()[row] = static_cast<std::int32_t>(choice / chosen);
  }
}

// One token's choices and values.
struct Choices {
  const std::int32_t *experts, *places;
  std::int64_t count;
  const float* probabilities;

  Choices(const Routing& routing, std::int64_t token)
      : experts(routing.experts.as<std::int32_t>() + token * routing.experts.cols()),
        places(routing.places.as<std::int32_t>() + token * routing.experts.cols()),
        count(routing.experts.cols()),
        probabilities(routing.probabilities.as<float>() + token * routing.probabilities.cols()) {}

  double sum() const {
    double total = 0;
    for (std::int64_t c = 0; c < count; ++c) total += probabilities[experts[c]];
    return total;
  }
};

// Returns for each sequence and expert the balancing loss's slope: E counts / N^2. N is the number of choices divided by those
// that a token makes in a layer.
std::vector<double> balance_slopes(const RouterLosses& losses, std::int64_t chosen) {
  const std::int64_t batch = losses.counts.rows(), experts = losses.counts.cols();
  const auto* const counts = losses.counts.as<std::int32_t>();
  std::vector<double> slopes(static_cast<std::size_t>(batch * experts));
  for (std::int64_t b = 0; b < batch; ++b) {
    std::int64_t all = 0;
    for (std::int64_t e = 0; e < experts; ++e) all += counts[b * experts + e];
    const double tokens = static_cast<double>(all) / static_cast<double>(chosen);
    for (std::int64_t e = 0; e < experts; ++e)
      slopes[static_cast<std::size_t>(b * experts + e)] =
          static_cast<double>(experts) * counts[b * experts + e] / (tokens * tokens);
  }
  return slopes;
}

// Returns the number of tokens of each sequence, in one layer.
std::vector<double> tokens_of_sequences(const RouterLosses& losses, std::int64_t chosen) {
  std::vector<double> tokens;
  const auto* counts = losses.counts.as<std::int32_t>();
  for (std::int64_t b = 0; b < losses.counts.rows(); ++b, counts += losses.counts.cols()) {
    double all = 0;
    for (std::int64_t e = 0; e < losses.counts.cols(); ++e) all += counts[e];
    tokens.push_back(all / static_cast<double>(chosen * losses.layers));
  }
  return tokens;
}

class RouterGradient {
 public:
  explicit RouterGradient(const RouteBackwardArgs& args) : args_(args) {
    if (!args.losses) return;
    slopes_ = balance_slopes(*args.losses, args.routing.experts.cols());
    lengths_ = tokens_of_sequences(*args.losses, args.routing.experts.cols());
    tokens_of_sequence_ = args.routing.experts.rows() / args.losses->counts.rows();
  }

  // Writes dlogits of a token: p_e (g_e - sum_f p_f g_f), where g is the gradient of the probabilities, and the z-loss's.
  void token(std::int64_t token, std::vector<double>& grads) const {
    const Choices choices(args_.routing, token);
    const std::int64_t experts = args_.routing.probabilities.cols();
    grads.assign(static_cast<std::size_t>(experts), 0);
    add_weights(choices, grads);
    double z = 0;
    if (args_.losses) {
      const std::int64_t sequence = token / tokens_of_sequence_;
      const double* const slopes = slopes_.data() + sequence * experts;
      for (std::int64_t e = 0; e < experts; ++e) grads[static_cast<std::size_t>(e)] += args_.losses->balance_scale * slopes[e];
      z = 2.0 * args_.losses->z_scale * args_.routing.log_sum_exp.as<float>()[token] /
          lengths_[static_cast<std::size_t>(sequence)];
    }
    double mean = 0;
    for (std::int64_t e = 0; e < experts; ++e) mean += choices.probabilities[e] * grads[static_cast<std::size_t>(e)];
    float* const out = args_.dlogits.as<float>() + token * experts;
    for (std::int64_t e = 0; e < experts; ++e)
      out[e] = static_cast<float>(choices.probabilities[e] * (grads[static_cast<std::size_t>(e)] - mean + z));
  }

  void add_statistics() const {
    auto* const out = args_.statistics.as<double>();
    const std::int64_t experts = args_.routing.probabilities.cols();
    for (std::int64_t choice = 0; choice < args_.routing.experts.elements(); ++choice) {
      out[args_.routing.experts.as<std::int32_t>()[choice]] += 1;
      out[experts + 2] += args_.routing.places.as<std::int32_t>()[choice] < 0 ? 1 : 0;
    }
    if (!args_.losses) return;
    double balance = 0, z = 0;
    for (std::int64_t token = 0; token < args_.routing.experts.rows(); ++token) {
      const std::int64_t sequence = token / tokens_of_sequence_;
      const float* const probabilities = args_.routing.probabilities.as<float>() + token * experts;
      for (std::int64_t e = 0; e < experts; ++e)
        balance += slopes_[static_cast<std::size_t>(sequence * experts + e)] * probabilities[e];
      const double log_sum_exp = args_.routing.log_sum_exp.as<float>()[token];
      z += log_sum_exp * log_sum_exp / lengths_[static_cast<std::size_t>(sequence)];
    }
    out[experts] += balance;
    out[experts + 1] += z;
  }

 private:
  void add_weights(const Choices& choices, std::vector<double>& grads) const {
    const auto dweight = [&, dweights = args_.dweights.as<float>()](std::int64_t c) {
      return choices.places[c] < 0 ? 0.0F : dweights[choices.places[c]];
    };
    const double sum = args_.normalised ? choices.sum() : 1;
    double mean = 0;
    if (args_.normalised) {
      for (std::int64_t c = 0; c < choices.count; ++c) mean += dweight(c) * (choices.probabilities[choices.experts[c]] / sum);
    }
    for (std::int64_t c = 0; c < choices.count; ++c)
      grads[static_cast<std::size_t>(choices.experts[c])] += (dweight(c) - mean) / sum;
  }

  const RouteBackwardArgs& args_;
  std::vector<double> slopes_, lengths_;
  std::int64_t tokens_of_sequence_ = 1;
};

}  // namespace

void route(CpuStream& stream, const RouteArgs& args) {
  const Routing& routing = args.routing;
  const std::int64_t experts = args.logits.cols(), chosen = routing.experts.cols();
  const float* const bias = args.bias.shape.rank() == 0 ? nullptr : args.bias.as<float>();
  for_row_tiles(stream, args.logits.rows(), experts, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> biased(static_cast<std::size_t>(experts));
    for (std::int64_t token = begin; token < end; ++token) {
      const float* scores = args.logits.as<float>() + token * experts;
      float* const probabilities = routing.probabilities.as<float>() + token * experts;
      routing.log_sum_exp.as<float>()[token] = softmax(scores, experts, probabilities);
      if (bias != nullptr) {
        std::transform(probabilities, probabilities + experts, bias, biased.begin(), std::plus<>());
        scores = biased.data();
      }
      choose(scores, experts, routing.experts.as<std::int32_t>() + token * chosen, chosen);
    }
  });
  drop_beyond(args.capacity, routing);
  sort_rows(routing);
  for_row_tiles(stream, args.logits.rows(), chosen, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const Choices choices(routing, token);
      const double sum = args.normalised ? choices.sum() : 1;
      for (std::int64_t c = 0; c < chosen; ++c) {
        if (choices.places[c] < 0) continue;
        routing.weights.as<float>()[choices.places[c]] = static_cast<float>(choices.probabilities[choices.experts[c]] / sum);
      }
    }
  });
}

void route_backward(CpuStream& stream, const RouteBackwardArgs& args) {
  const RouterGradient gradient(args);
  for_row_tiles(stream, args.dlogits.rows(), args.dlogits.cols(), [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> grads;
    for (std::int64_t token = begin; token < end; ++token) gradient.token(token, grads);
  });
  if (args.statistics.data != nullptr) gradient.add_statistics();
}

void count_experts(const CountExpertsArgs& args) {
  const std::int64_t of_sequence = args.experts.elements() / args.counts.rows(), experts = args.counts.cols();
  for (std::int64_t choice = 0; choice < args.experts.elements(); ++choice)
    ++args.counts.as<std::int32_t>()[choice / of_sequence * experts + args.experts.as<std::int32_t>()[choice]];
}

}  // namespace pipetrain::cpu
