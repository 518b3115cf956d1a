// Follows the waits from the last end back to the first start.
#include <algorithm>
#include <optional>

#include "schedules/simulate/timeline.hpp"

namespace pipetrain::schedules {

namespace {

// The span of each producer, to which a wait leads: [virtual stage][microbatch] -> index in its stage.
class Producers {
 public:
  explicit Producers(const Timeline& timeline)
      : timeline_(timeline), microbatches_(static_cast<std::size_t>(timeline.microbatches)) {
    const auto size = static_cast<std::size_t>(timeline.placement.virtual_stages()) * microbatches_;
    forward_.resize(size);
    backward_.resize(size);
    for (int stage = 0; stage < timeline.placement.stages(); ++stage) {
      const auto& spans = timeline.stages[static_cast<std::size_t>(stage)];
      for (std::size_t i = 0; i < spans.size(); ++i) {
        const Action& action = spans[i].action;
        if (!is_compute(action.kind)) continue;
        const auto at = index(timeline.placement.virtual_stage(stage, action.chunk), action.microbatch);
        if (action.kind == ActionKind::forward) forward_[at] = i;
        if (gives_input_grad(action.kind)) backward_[at] = i;
      }
    }
  }

  SpanRef forward(int v, int microbatch) const { return {timeline_.placement.at(v).stage, forward_[index(v, microbatch)]}; }
  SpanRef backward(int v, int microbatch) const { return {timeline_.placement.at(v).stage, backward_[index(v, microbatch)]}; }

 private:
  std::size_t index(int v, int microbatch) const {
    return static_cast<std::size_t>(v) * microbatches_ + static_cast<std::size_t>(microbatch);
  }
  const Timeline& timeline_;
  std::size_t microbatches_;
  std::vector<std::size_t> forward_, backward_;
};

class CriticalPath {
 public:
  explicit CriticalPath(const Timeline& timeline) : timeline_(timeline), producers_(timeline) {
    for (const auto& spans : timeline.stages) seen_.emplace_back(spans.size(), false);
  }

  std::vector<SpanRef> find() {
    std::vector<SpanRef> path;
    // An action that starts at the very time of its cause may look like the cause of that cause too: follow each only once.
    for (auto at = last_action(); at && !seen(*at); at = cause_of(*at)) {
      seen(*at) = true;
      path.push_back(*at);
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

 private:
  const std::vector<Span>& spans(int stage) const { return timeline_.stages[static_cast<std::size_t>(stage)]; }
  const Span& span(SpanRef at) const { return spans(at.stage)[at.index]; }
  std::vector<bool>::reference seen(SpanRef at) { return seen_[static_cast<std::size_t>(at.stage)][at.index]; }
  int stages() const { return static_cast<int>(timeline_.stages.size()); }

  std::optional<SpanRef> last_action() const {
    std::optional<SpanRef> last;
    for (int stage = 0; stage < stages(); ++stage)
      if (!spans(stage).empty() && (!last || spans(stage).back().end > span(*last).end))
        last = SpanRef{stage, spans(stage).size() - 1};
    return last;
  }

  std::optional<SpanRef> cause_of(SpanRef at) {
    const Action& action = waiting_action(at);
    const int v = timeline_.placement.virtual_stage(at.stage, action.chunk);
    switch (span(at).waited_for) {
      case WaitedFor::activation:
        if (v > 0) return producers_.forward(v - 1, action.microbatch);
        break;
      case WaitedFor::gradient:
        if (v + 1 < timeline_.placement.virtual_stages()) return producers_.backward(v + 1, action.microbatch);
        break;
      case WaitedFor::slot:
        return latest_end_before(span(at).start, at);
      case WaitedFor::partner:
        if (is_custom(action.kind)) return latest_end_before(span(at).start, at);
        return action.kind == ActionKind::sum_tied ? before_partner(at) : last_norm();
      case WaitedFor::memory:
      case WaitedFor::nothing:
        break;
    }
    return before(at);
  }

  // Returns the action of a braid whose input arrived last.
  const Action& waiting_action(SpanRef at) const {
    const Span& one = span(at);
    if (!one.begins_braid) return one.action;
    const Action& second = spans(at.stage)[at.index + 1].action;
    if (one.waited_for == WaitedFor::gradient) return second;
    if (one.waited_for != WaitedFor::activation || second.kind != ActionKind::forward) return one.action;
    const auto end_of = [&](const Action& forward) {
      const int v = timeline_.placement.virtual_stage(at.stage, forward.chunk);
      return v > 0 ? span(producers_.forward(v - 1, forward.microbatch)).end : 0;
    };
    return end_of(second) > end_of(one.action) ? second : one.action;
  }

  static std::optional<SpanRef> before(SpanRef at) {
    return at.index > 0 ? std::optional(SpanRef{at.stage, at.index - 1}) : std::nullopt;
  }

  // T begins when the later of its two stages reaches it, so the path continues with that stage's previous action.
  std::optional<SpanRef> before_partner(SpanRef at) const {
    for (const StageChunk place : tied_sum_places(timeline_.placement)) {
      if (place.stage == at.stage) continue;
      const auto& other = spans(place.stage);
      const auto t =
          std::find_if(other.rbegin(), other.rend(), [](const Span& one) { return one.action.kind == ActionKind::sum_tied; });
      if (t != other.rend()) return before({place.stage, static_cast<std::size_t>(other.rend() - t) - 1});
    }
    return before(at);
  }

  // O waits for the verdict, and the verdict for the last N of all stages.
  std::optional<SpanRef> last_norm() const {
    std::optional<SpanRef> last;
    for (int stage = 0; stage < stages(); ++stage) {
      const auto& list = spans(stage);
      const auto norm =
          std::find_if(list.rbegin(), list.rend(), [](const Span& one) { return one.action.kind == ActionKind::norm; });
      if (norm != list.rend() && (!last || norm->end > span(*last).end))
        last = SpanRef{stage, static_cast<std::size_t>(list.rend() - norm) - 1};
    }
    return last;
  }

  // Returns the last action of all stages that ended by `time`: it freed the slot, or a custom action waited for it.
  std::optional<SpanRef> latest_end_before(double time, SpanRef self) const {
    std::optional<SpanRef> found;
    for (int stage = 0; stage < stages(); ++stage) {
      const auto& list = spans(stage);
      auto after = std::upper_bound(list.begin(), list.end(), time, [](double t, const Span& one) { return t < one.end; });
      if (stage == self.stage) after = std::min(after, list.begin() + static_cast<std::ptrdiff_t>(self.index));
      if (after == list.begin() || (found && std::prev(after)->end <= span(*found).end)) continue;
      found = SpanRef{stage, static_cast<std::size_t>(after - list.begin()) - 1};
    }
    return found;
  }

  const Timeline& timeline_;
  Producers producers_;
  std::vector<std::vector<bool>> seen_;
};

}  // namespace

std::vector<SpanRef> critical_path(const Timeline& timeline) { return CriticalPath(timeline).find(); }

}  // namespace pipetrain::schedules
