#include "ops/preference.hpp"

#include <algorithm>

#include "core/labels/context_label.hpp"
#include "ops/cpu/kernels.hpp"

namespace pipetrain::cpu {
namespace {

SequenceSums sums_at(const Tensor& sums, std::int64_t sequence) {
  const double* const row = sums.as<double>() + 2 * sequence;
  return {row[0], row[1]};
}

SequenceFacts facts_at(const Tensor& facts, std::int64_t sequence) {
  const double* const row = facts.as<double>() + preference_facts * sequence;
  return {row[0], fmax(row[1], 1.0), row[2], row[3], row[4]};  // padding has no tokens
}

struct TokenScales {
  double completion, context;
};

void write_scales(const PreferenceScalesArgs& args, std::int64_t sequence, const TokenScales& scales) {
  const std::int64_t length = args.targets.elements() / args.sums.rows();
  const auto* const targets = args.targets.as<std::int32_t>() + sequence * length;
  float* const out = args.scales.as<float>() + sequence * length;
  for (std::int64_t token = 0; token < length; ++token)
    out[token] = static_cast<float>(targets[token] >= 0                ? scales.completion
                                    : is_context_label(targets[token]) ? scales.context
                                                                       : 0);
}

}  // namespace

void context_targets(const ContextTargetsArgs& args) {
  const auto* const targets = args.targets.as<std::int32_t>();
  std::transform(targets, targets + args.targets.elements(), args.out.as<std::int32_t>(),
                 [](std::int32_t target) { return is_context_label(target) ? context_id(target) : target; });
}

void sequence_sums(const SequenceSumsArgs& args) {
  const std::int64_t sequences = args.sums.rows(), length = args.targets.elements() / sequences;
  const auto* const targets = args.targets.as<std::int32_t>();
  const float* const losses = args.token_losses.as<float>();
  for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
    SequenceSums sums;
    for (std::int64_t token = sequence * length; token < (sequence + 1) * length; ++token) {
      if (targets[token] >= 0) sums.completion += losses[token];
      if (is_context_label(targets[token])) sums.context += losses[token];
    }
    double* const out = args.sums.as<double>() + 2 * sequence;
    out[0] = sums.completion;
    out[1] = sums.context;
  }
}

void preference_scales(const PreferenceScalesArgs& args) {
  const std::int64_t step = args.formula.has_pairs() ? 2 : 1;
  for (std::int64_t first = 0; first < args.sums.rows(); first += step) {
    const SequenceSums sums = sums_at(args.sums, first);
    const SequenceFacts facts = facts_at(args.facts, first);
    if (!args.formula.has_pairs()) {
      write_scales(args, first, {sequence_terms(args.formula, sums, facts).by_chosen, 0});
      continue;
    }
    const std::int64_t second = first + 1;
    const PreferenceTerms terms =
        pair_terms(args.formula, sums, facts, sums_at(args.sums, second), facts_at(args.facts, second));
    write_scales(args, first, {terms.by_chosen, facts.likelihood_weight});
    write_scales(args, second, {terms.by_rejected, 0});
  }
}

}  // namespace pipetrain::cpu
