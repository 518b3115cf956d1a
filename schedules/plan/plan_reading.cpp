#include "schedules/plan/plan_reading.hpp"

#include <algorithm>
#include <charconv>

#include "schedules/plan/validate.hpp"

namespace pipetrain::schedules {

namespace {

constexpr std::int64_t most_stages = 65536;
// F, I and W of each microbatch and chunk, and the end of the step.
constexpr std::int64_t most_actions = 4 * most_plan_work;

}  // namespace

std::optional<int> to_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

void PlanSize::add_stage() {
  if (stages() == most_stages) reader_.fail("a plan has at most " + std::to_string(most_stages) + " stages; use fewer");
  actions_.push_back(0);
}

void PlanSize::add_action() {
  ++actions_.back();
  if (++all_ > most_actions)
    reader_.fail("a plan has at most " + std::to_string(most_actions) + " actions; use fewer stages or microbatches");
}

void PlanSize::add_transfer() {
  if (++transfers_ > most_actions)
    reader_.fail("a plan has at most " + std::to_string(most_actions) + " SEND and RECV; use fewer stages or microbatches");
}

void PlanSize::check(int chunks, int microbatches) const {
  const std::int64_t parts = stages() * chunks;
  const std::string shape = "pp " + std::to_string(stages()) + " x chunks " + std::to_string(chunks);
  if (parts * microbatches > most_plan_work)
    reader_.fail(shape + " x microbatches " + std::to_string(microbatches) + " is more than " + std::to_string(most_plan_work) +
                     ", the most of a plan; use fewer",
                 0);
  if (parts > std::max(all_, stages()))
    reader_.fail("the plan has " + std::to_string(all_) + " actions for " + shape + "; each chunk needs F and B", 0);
}

void check_read_plan(const Plan& plan, const FieldReader& reader, const std::vector<int>& lines,
                     const std::function<void()>& more) {
  try {
    check_plan(plan);
    if (more) more();
  } catch (const InvalidPlan& error) {
    reader.fail(error.fault(), error.stage() < 0 ? 0 : lines[static_cast<std::size_t>(error.stage())]);
  }
}

}  // namespace pipetrain::schedules
