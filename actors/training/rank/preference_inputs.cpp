#include "actors/training/rank/preference_inputs.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace pipetrain {
namespace {

// Sequences of a step in one replica.
std::int64_t step_sequences(const RankSetup& setup) { return setup.microbatches / setup.slices * setup.shape.batch; }

}  // namespace

std::size_t PreferenceInputs::bytes(const RankSetup& setup) {
  const bool has_head = std::any_of(setup.chunks.begin(), setup.chunks.end(),
                                    [](const auto& blocks) { return blocks.back().kind == BlockKind::head; });
  if (!setup.config.preference || !has_head) return 0;
  return static_cast<std::size_t>(step_sequences(setup)) * sizeof(SequenceFacts);
}

PreferenceInputs::PreferenceInputs(const RankSetup& setup, Stream& compute) : setup_(setup), compute_(compute) {
  static_assert(sizeof(SequenceFacts) == preference_facts * sizeof(double));
  if (bytes(setup) == 0) return;
  memory_ = setup.device->allocate(bytes(setup), to_string(setup.id) + ": facts about completions");
  host_memory_ = setup.device->allocate_host(bytes(setup), to_string(setup.id) + ": facts about completions");
}

// The host buffer is free: its last copy belongs to forwards of the previous step, which has ended.
void PreferenceInputs::begin(const PreferencePass& pass) {
  base_alone_ = pass.by_reference && setup_.preference.compares_with_base();
  has_facts_ = memory_.bytes() > 0 && !pass.facts.empty();
  if (!has_facts_) return;
  const std::int64_t own = step_sequences(setup_);
  assert(std::ssize(pass.facts) == own * setup_.batch.dp);
  const std::size_t size = bytes(setup_);
  std::memcpy(host_memory_.data(), pass.facts.data() + setup_.data_replica * own, size);
  compute_.copy(memory_.data(), host_memory_.data(), size);
}

void PreferenceInputs::add_to(ForwardArgs& forward, int microbatch) const {
  forward.preference_facts = facts(microbatch);
  forward.base_alone = base_alone_;
}

std::optional<Tensor> PreferenceInputs::facts(int microbatch) const {
  if (!has_facts_) return std::nullopt;
  const Tensor all{memory_.data(), {step_sequences(setup_), preference_facts}, DType::f64};
  const std::int64_t first = microbatch / setup_.slices * setup_.shape.batch;
  return all.row_range(first, first + setup_.shape.batch);
}

}  // namespace pipetrain
