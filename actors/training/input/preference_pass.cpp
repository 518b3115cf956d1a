#include "actors/training/input/preference_pass.hpp"

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "actors/training/input/step_samples.hpp"

namespace pipetrain {
namespace {

static_assert(std::is_trivially_copyable_v<SequenceFacts>);

// The flags, one byte each, and then the facts.
constexpr std::size_t flags = 8;

}  // namespace

void add_to(StepInfo& step, const PreferencePass& pass) {
  std::vector<std::byte> bytes(flags + pass.facts.size() * sizeof(SequenceFacts));
  const bool values[] = {pass.on_training_data, pass.in_order, pass.mismatched, pass.by_reference, pass.frees_reference};
  for (std::size_t i = 0; i < std::size(values); ++i) bytes[i] = std::byte{values[i]};
  if (!pass.facts.empty()) std::memcpy(bytes.data() + flags, pass.facts.data(), bytes.size() - flags);
  step.content = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

PreferencePass preference_pass_of(const StepInfo& step) {
  PreferencePass pass;
  if (!step.content) return pass;
  const std::vector<std::byte>& bytes = *step.content;
  const auto flag = [&](std::size_t index) { return bytes.at(index) != std::byte{0}; };
  pass.on_training_data = flag(0);
  pass.in_order = flag(1);
  pass.mismatched = flag(2);
  pass.by_reference = flag(3);
  pass.frees_reference = flag(4);
  pass.facts.resize((bytes.size() - flags) / sizeof(SequenceFacts));
  if (!pass.facts.empty()) std::memcpy(pass.facts.data(), bytes.data() + flags, bytes.size() - flags);
  return pass;
}

std::shared_ptr<const StepSamples> samples_of(const StepInfo& step, const std::shared_ptr<const StepSamples>& training,
                                              const std::shared_ptr<const StepSamples>& evaluation) {
  const PreferencePass pass = preference_pass_of(step);
  const auto& own = !step.evaluates() || pass.on_training_data ? training : evaluation;
  if (pass.in_order) return own->in_order();
  return pass.mismatched ? own->mismatched() : own;
}

}  // namespace pipetrain
