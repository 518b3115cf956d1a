#include "schedules/timeline.hpp"

#include <algorithm>
#include <limits>

namespace pipetrain::schedules {

namespace {

double first_start(const Timeline& timeline) {
  double first = std::numeric_limits<double>::infinity();
  for (const auto& spans : timeline.stages)
    if (!spans.empty()) first = std::min(first, spans.front().start);
  return first;
}

double last_end(const Timeline& timeline) {
  double last = -std::numeric_limits<double>::infinity();
  for (const auto& spans : timeline.stages)
    if (!spans.empty()) last = std::max(last, spans.back().end);
  return last;
}

double transfer_before(const Timeline& timeline, int stage, const Span& span, const std::vector<double>& transfers) {
  if (transfers.empty()) return 0;
  const int v = timeline.placement.virtual_stage(stage, span.action.chunk);
  if (span.waited_for == WaitedFor::activation && v > 0) return transfers[static_cast<std::size_t>(v - 1)];
  if (span.waited_for == WaitedFor::gradient && v + 1 < timeline.placement.virtual_stages())
    return transfers[static_cast<std::size_t>(v)];
  return 0;
}

StageSummary summarize_stage(const Timeline& timeline, int stage, double begin, double end,
                             const std::vector<double>& transfers) {
  const auto& spans = timeline.stages[static_cast<std::size_t>(stage)];
  StageSummary summary;
  double first_backward = end, last_forward = begin;
  int held = 0, peak = 0;
  for (const Span& span : spans) {
    summary.busy += span.end - span.start;
    if (span.action.kind == ActionKind::forward) last_forward = span.end, peak = std::max(peak, ++held);
    if (gives_input_grad(span.action.kind)) first_backward = std::min(first_backward, span.start);
    if (gives_weight_grad(span.action.kind)) --held;
  }
  summary.peak_activations = static_cast<double>(peak) / timeline.placement.chunks();
  summary.idle = end - begin - summary.busy;
  summary.span = spans.empty() ? 0 : spans.back().end - spans.front().start;
  double free_at = begin;
  const auto add_gap = [&](double until, double communication) {
    const double gap = std::max(0.0, until - free_at);
    const double on_the_way = std::min(gap, communication);
    summary.idle_communication += on_the_way;
    // A stage whose first backward comes after its last forward has no steady part.
    double& part = until <= first_backward   ? summary.idle_warm_up
                   : free_at >= last_forward ? summary.idle_cool_down
                                             : summary.idle_steady;
    part += gap - on_the_way;
  };
  for (const Span& span : spans) {
    add_gap(span.start, transfer_before(timeline, stage, span, transfers));
    free_at = span.end;
  }
  add_gap(end, 0);
  return summary;
}

// Where each producer stands, so that a wait can be followed to it: [virtual stage][microbatch] -> index in its stage.
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

// The action of any stage that ended last, but not after `time`.
bool latest_end_before(const Timeline& timeline, double time, SpanRef self, SpanRef& found) {
  double best = -std::numeric_limits<double>::infinity();
  for (int stage = 0; stage < static_cast<int>(timeline.stages.size()); ++stage) {
    const auto& spans = timeline.stages[static_cast<std::size_t>(stage)];
    auto after = std::upper_bound(spans.begin(), spans.end(), time, [](double t, const Span& span) { return t < span.end; });
    if (stage == self.stage) after = std::min(after, spans.begin() + static_cast<std::ptrdiff_t>(self.index));
    if (after == spans.begin() || std::prev(after)->end <= best) continue;
    best = std::prev(after)->end;
    found = {stage, static_cast<std::size_t>(after - spans.begin()) - 1};
  }
  return best > -std::numeric_limits<double>::infinity();
}

}  // namespace

Summary summarize(const Timeline& timeline, const std::vector<double>& transfers) {
  Summary summary;
  const double begin = first_start(timeline), end = last_end(timeline);
  if (!(begin <= end)) return summary;
  summary.makespan = end - begin;
  double busy = 0;
  for (int stage = 0; stage < static_cast<int>(timeline.stages.size()); ++stage) {
    summary.stages.push_back(summarize_stage(timeline, stage, begin, end, transfers));
    busy += summary.stages.back().busy;
    summary.span_bubble = std::max(summary.span_bubble, summary.stages.back().span - summary.stages.back().busy);
  }
  if (summary.makespan > 0)
    summary.bubble_fraction = 1 - busy / (static_cast<double>(timeline.stages.size()) * summary.makespan);
  return summary;
}

std::vector<SpanRef> critical_path(const Timeline& timeline) {
  const Producers producers(timeline);
  std::vector<SpanRef> path;
  SpanRef at;
  double last = -std::numeric_limits<double>::infinity();
  for (int stage = 0; stage < static_cast<int>(timeline.stages.size()); ++stage) {
    const auto& spans = timeline.stages[static_cast<std::size_t>(stage)];
    if (!spans.empty() && spans.back().end > last) last = spans.back().end, at = {stage, spans.size() - 1};
  }
  if (timeline.stages.empty() || timeline.stages[static_cast<std::size_t>(at.stage)].empty()) return path;
  while (true) {
    path.push_back(at);
    const Span& span = timeline.stages[static_cast<std::size_t>(at.stage)][at.index];
    const int m = span.action.microbatch;
    const int v = timeline.placement.virtual_stage(at.stage, span.action.chunk);
    if (span.waited_for == WaitedFor::activation && v > 0) {
      at = producers.forward(v - 1, m);
    } else if (span.waited_for == WaitedFor::gradient && v + 1 < timeline.placement.virtual_stages()) {
      at = producers.backward(v + 1, m);
    } else if (span.waited_for == WaitedFor::slot || span.waited_for == WaitedFor::partner) {
      SpanRef found;
      if (!latest_end_before(timeline, span.start, at, found)) break;
      at = found;
    } else if (at.index > 0) {
      --at.index;
    } else {
      break;
    }
  }
  std::reverse(path.begin(), path.end());
  return path;
}

double peak_bytes(const std::vector<Span>& spans, const std::vector<ChunkCost>& chunks) {
  double now = 0, peak = 0;
  for (const Span& span : spans) {
    const ChunkCost& chunk = chunks[static_cast<std::size_t>(span.action.chunk)];
    if (span.action.kind == ActionKind::forward) now += chunk.held_bytes;
    if (span.action.kind == ActionKind::input_grad) now += chunk.pending_bytes;
    peak = std::max(peak, now);
    if (span.action.kind == ActionKind::weight_grad) now -= chunk.pending_bytes;
    if (gives_weight_grad(span.action.kind)) now -= chunk.held_bytes;
  }
  return peak;
}

}  // namespace pipetrain::schedules
