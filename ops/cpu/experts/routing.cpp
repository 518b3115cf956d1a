// The router: the experts of each token, the order of the rows, and the gradient of the logits.
#include <algorithm>
#include <cmath>
#include <limits>
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

// Writes the scores of one token, and returns the log_sum_exp of its logits.
float score(const ScoreRule& rule, const float* logits, std::int64_t experts, float* scores) {
  const float log_sum_exp = softmax(logits, experts, scores);
  if (rule.sigmoid)
    for (std::int64_t e = 0; e < experts; ++e)
      scores[e] = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(logits[e]))));
  return log_sum_exp;
}

// Returns the score of a group of experts.
double group_score(const ScoreRule& rule, const float* scores, std::int64_t experts) {
  const float* const best = std::max_element(scores, scores + experts);
  if (!rule.pairs || experts == 1) return *best;
  double second = -std::numeric_limits<double>::infinity();
  for (const float* one = scores; one != scores + experts; ++one)
    if (one != best) second = std::max<double>(second, *one);
  return *best + second;
}

// Excludes the experts of all groups but those with the highest scores from the choice.
void exclude_groups(const ScoreRule& rule, std::vector<float>& scores) {
  const std::int64_t size = std::ssize(scores) / rule.groups;
  std::vector<double> groups;
  for (std::int64_t group = 0; group < rule.groups; ++group)
    groups.push_back(group_score(rule, scores.data() + group * size, size));
  std::vector<bool> is_chosen(groups.size());
  for (std::int64_t choice = 0; choice < rule.chosen_groups; ++choice) {
    std::size_t best = groups.size();
    for (std::size_t group = 0; group < groups.size(); ++group)
      if (!is_chosen[group] && (best == groups.size() || groups[group] > groups[best])) best = group;
    is_chosen[best] = true;
  }
  for (std::size_t e = 0; e < scores.size(); ++e)
    if (!is_chosen[e / static_cast<std::size_t>(size)]) scores[e] = -std::numeric_limits<float>::infinity();
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
    if (all == 0) continue;  // no document begins here
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

// Finds the row of counts of each token.
class CountRows {
 public:
  CountRows() = default;
  CountRows(const CountedSequences& sequences, std::int64_t tokens, std::int64_t rows)
      : documents_(sequences.documents.data == nullptr ? nullptr : sequences.documents.as<std::int32_t>()),
        tokens_(documents_ == nullptr ? tokens / rows : tokens / sequences.batch),
        rows_(rows / sequences.batch) {}

  std::int64_t of(std::int64_t token) const {
    return documents_ == nullptr ? token / tokens_ : token / tokens_ * rows_ + documents_[token];
  }

 private:
  const std::int32_t* documents_ = nullptr;
  std::int64_t tokens_ = 1, rows_ = 1;  // of a sample
};

class RouterGradient {
 public:
  explicit RouterGradient(const RouteBackwardArgs& args) : args_(args) {
    if (!args.losses) return;
    slopes_ = balance_slopes(*args.losses, args.routing.experts.cols());
    lengths_ = tokens_of_sequences(*args.losses, args.routing.experts.cols());
    rows_ = CountRows(args.losses->sequences, args.routing.experts.rows(), args.losses->counts.rows());
  }

  // Writes dlogits of a token: p_e (g_e - sum_f p_f g_f), where g is the gradient of the probabilities, and the z-loss's.
  void token(std::int64_t token, std::vector<double>& grads) const {
    const Choices choices(args_.routing, token);
    const std::int64_t experts = args_.routing.probabilities.cols();
    grads.assign(static_cast<std::size_t>(experts), 0);
    add_weights(choices, grads);
    if (args_.rule.sigmoid) return sigmoid_token(token, choices, grads);
    double z = 0;
    if (args_.losses) {
      const std::int64_t sequence = rows_.of(token);
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
      const std::int64_t sequence = rows_.of(token);
      const float* const probabilities = args_.routing.probabilities.as<float>() + token * experts;
      double sum = args_.rule.sigmoid ? 0 : 1, own = 0;
      for (std::int64_t e = 0; e < experts; ++e) {
        own += slopes_[static_cast<std::size_t>(sequence * experts + e)] * probabilities[e];
        if (args_.rule.sigmoid) sum += probabilities[e];
      }
      balance += own / sum;
      const double log_sum_exp = args_.routing.log_sum_exp.as<float>()[token];
      z += log_sum_exp * log_sum_exp / lengths_[static_cast<std::size_t>(sequence)];
    }
    out[experts] += balance;
    out[experts + 1] += z;
  }

 private:
  // Writes dlogits of a token whose scores are sigmoids: s (1 - s) g. The balancing loss is that of the scores divided by their
  // sum (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 2.1.2).
  void sigmoid_token(std::int64_t token, const Choices& choices, std::vector<double>& grads) const {
    const auto experts = static_cast<std::size_t>(args_.routing.probabilities.cols());
    const float* const scores = choices.probabilities;
    if (args_.losses) {
      const double* const slopes = slopes_.data() + static_cast<std::size_t>(rows_.of(token)) * experts;
      double sum = 0, balance = 0;
      for (std::size_t e = 0; e < experts; ++e) sum += scores[e], balance += slopes[e] * scores[e];
      for (std::size_t e = 0; e < experts; ++e) grads[e] += args_.losses->balance_scale * (slopes[e] - balance / sum) / sum;
    }
    float* const out = args_.dlogits.as<float>() + static_cast<std::size_t>(token) * experts;
    for (std::size_t e = 0; e < experts; ++e)
      out[e] = static_cast<float>(static_cast<double>(scores[e]) * (1 - static_cast<double>(scores[e])) * grads[e]);
  }

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
      grads[static_cast<std::size_t>(choices.experts[c])] += args_.rule.scale * (dweight(c) - mean) / sum;
  }

  const RouteBackwardArgs& args_;
  std::vector<double> slopes_, lengths_;
  CountRows rows_;
};

}  // namespace

namespace {

// Writes the scores by which a token chooses. Without biases and groups these are its logits, which have the order of the
// scores.
const float* scores_of_choice(const RouteArgs& args, std::int64_t token, std::vector<float>& memory) {
  const auto experts = static_cast<std::size_t>(args.logits.cols()), first = static_cast<std::size_t>(token) * experts;
  const bool has_bias = args.bias.shape.rank() > 0, has_correction = args.correction.shape.rank() > 0;
  if (!has_bias && !has_correction && args.rule.groups == 1) return args.logits.as<float>() + first;
  const float* const scores = args.routing.probabilities.as<float>() + first;
  memory.assign(scores, scores + experts);
  for (std::size_t e = 0; has_correction && e < experts; ++e) memory[e] += args.correction.as<float>()[e];
  for (std::size_t e = 0; has_bias && e < experts; ++e) memory[e] += args.bias.as<float>()[e];
  if (args.rule.groups > 1) exclude_groups(args.rule, memory);
  return memory.data();
}

}  // namespace

void route(CpuStream& stream, const RouteArgs& args) {
  const Routing& routing = args.routing;
  const std::int64_t experts = args.logits.cols(), chosen = routing.experts.cols();
  for_row_tiles(stream, args.logits.rows(), experts, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> biased;
    for (std::int64_t token = begin; token < end; ++token) {
      routing.log_sum_exp.as<float>()[token] = score(args.rule, args.logits.as<float>() + token * experts, experts,
                                                     routing.probabilities.as<float>() + token * experts);
      choose(scores_of_choice(args, token, biased), experts, routing.experts.as<std::int32_t>() + token * chosen, chosen);
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
        routing.weights.as<float>()[choices.places[c]] =
            static_cast<float>(args.rule.scale * choices.probabilities[choices.experts[c]] / sum);
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
  const std::int64_t chosen = args.experts.cols(), experts = args.counts.cols();
  const CountRows rows(args.sequences, args.experts.rows(), args.counts.rows());
  for (std::int64_t choice = 0; choice < args.experts.elements(); ++choice)
    ++args.counts.as<std::int32_t>()[rows.of(choice / chosen) * experts + args.experts.as<std::int32_t>()[choice]];
}

}  // namespace pipetrain::cpu
