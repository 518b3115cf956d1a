#include "schedules/record/replayed_stage.hpp"

#include <algorithm>
#include <chrono>

namespace pipetrain::schedules {

namespace {

using Type = StageEvent::Type;

}  // namespace

std::string to_string(const StageEvent& event, const ActionForm& form) {
  static constexpr const char* inputs[] = {"activation", "gradient", "target"};
  const std::string input = inputs[static_cast<std::size_t>(event.input)];
  const std::string chunk = form.chunks > 1 ? " for chunk " + std::to_string(event.action.chunk) : "";
  switch (event.type) {
    case Type::begin_training:
      return "the step begins";
    case Type::begin_evaluation:
      return "a step of an evaluation begins";
    case Type::verdict_apply:
      return "the verdict is to apply the step";
    case Type::verdict_skip:
      return "the verdict is to skip the step";
    case Type::abort:
      return "the step is aborted";
    case Type::input:
      return "the " + input + " of microbatch " + piece_text(event.action.microbatch, form.slices) + chunk + " arrives";
    case Type::credit:
      return "a slot for its " + input + chunk + " comes back";
    case Type::launched:
      return to_string(event.action, form) + " is launched";
    case Type::enqueued:
      return to_string(event.action, form) + " is enqueued";
    case Type::completed:
      return to_string(event.action, form) + " completes";
    case Type::signalled:
      return "a signal for " + to_string(event.action, form) + " comes";
  }
  return "?";
}

void ReplayedStage::load(const StageLog& bytes) {
  const auto base = std::chrono::duration_cast<std::chrono::nanoseconds>(bytes.base.time_since_epoch()).count();
  reader_.read(base, bytes.bytes, log_);
  next_ = log_.events.data();
  end_ = next_ + log_.events.size();
  silent_ = bytes.bytes.empty();
}

std::string ReplayedStage::place(const ActionForm& form) const {
  return "event " + std::to_string(next_ - log_.events.data() + 1) + " (" +
         (is_at_end() ? "its end" : to_string(*next_, form)) + ")";
}

std::vector<Action> ReplayedStage::launched() const {
  std::vector<Action> actions;
  for (const StageEvent& event : log_.events)
    if (event.type == Type::launched) actions.push_back(event.action);
  return actions;
}

std::int64_t begin_of(const std::vector<ReplayedStage>& stages) {
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  std::int64_t message = none, action = none;
  for (const ReplayedStage& stage : stages) {
    if (!stage.log().events.empty()) message = std::min(message, stage.log().events.front().time);
    for (const LoggedAction& one : stage.log().actions)
      if (one.end != 0) action = std::min(action, one.start);
  }
  return action == none ? message : action;
}

std::int64_t end_of(const std::vector<ReplayedStage>& stages) {
  std::int64_t last = 0;
  for (const ReplayedStage& stage : stages) {
    if (!stage.log().events.empty()) last = std::max(last, stage.log().events.back().time);
    for (const LoggedAction& one : stage.log().actions) last = std::max(last, one.end);
  }
  return last;
}

}  // namespace pipetrain::schedules
