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
