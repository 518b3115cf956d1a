#include "schedules/simulate/timeline.hpp"

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

// Returns the time of evaluations between `begin` and `end`.
double evaluated(const Timeline& timeline, double begin, double end) {
  double time = 0;
  for (const Period& period : timeline.evaluations)
    time += std::max(0.0, std::min(end, period.end) - std::max(begin, period.start));
  return time;
}

const std::vector<Span>& moves_of_stage(const Timeline& timeline, int stage) {
  static const std::vector<Span> none;
  return timeline.moves.empty() ? none : timeline.moves[static_cast<std::size_t>(stage)];
}

struct Change {
  double time, by;
  bool operator<(const Change& other) const { return time != other.time ? time < other.time : by < other.by; }
};

// Changes of one row come in order of time, except moves, which run beside it.
double most_at_once(std::vector<Change> changes, bool moves) {
  if (moves) std::sort(changes.begin(), changes.end());
  double now = 0, most = 0;
  for (const Change& change : changes) most = std::max(most, now += change.by);
  return most;
}

// Adds the microbatches kept on the device, each of this size: from F, or the start of G, to B or W, or the end of P.
template <class Size>
void add_held(std::vector<Change>& changes, const std::vector<Span>& spans, const Size& size) {
  for (const Span& span : spans) {
    if (span.action.kind == ActionKind::forward || span.action.kind == ActionKind::reload)
      changes.push_back({span.start, size(span)});
    if (gives_weight_grad(span.action.kind) || span.action.kind == ActionKind::offload)
      changes.push_back({span.end, -size(span)});
  }
}

StageSummary summarize_stage(const Timeline& timeline, int stage, double begin, double end,
                             const std::vector<double>& transfers) {
  const auto& spans = timeline.stages[static_cast<std::size_t>(stage)];
  StageSummary summary;
  double first_backward = end, last_forward = begin;
  for (const Span& span : spans) {
    summary.busy += span.end - span.start;
    if (span.action.kind == ActionKind::forward) last_forward = span.end;
    if (gives_input_grad(span.action.kind)) first_backward = std::min(first_backward, span.start);
  }
  std::vector<Change> held;
  for (const auto* row : {&spans, &moves_of_stage(timeline, stage)}) add_held(held, *row, [](const Span&) { return 1.0; });
  summary.peak_activations =
      most_at_once(std::move(held), !timeline.moves.empty()) / (timeline.placement.chunks() * timeline.slices);
  summary.idle = end - begin - summary.busy - evaluated(timeline, begin, end);
  if (!spans.empty())
    summary.span = spans.back().end - spans.front().start - evaluated(timeline, spans.front().start, spans.back().end);
  double free_at = begin;
  const auto add_gap = [&](double until, double communication) {
    const double gap = std::max(0.0, until - free_at - evaluated(timeline, free_at, until));
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
  const double worked = summary.makespan - evaluated(timeline, begin, end);
  if (worked > 0) summary.bubble_fraction = 1 - busy / (static_cast<double>(timeline.stages.size()) * worked);
  return summary;
}

double peak_bytes(const Timeline& timeline, int stage, const std::vector<ChunkCost>& chunks) {
  const auto cost = [&](const Span& span) -> const ChunkCost& { return chunks[static_cast<std::size_t>(span.action.chunk)]; };
  const auto& spans = timeline.stages[static_cast<std::size_t>(stage)];
  std::vector<Change> changes;
  for (const Span& span : spans) {
    if (span.action.kind == ActionKind::input_grad) changes.push_back({span.start, cost(span).pending_bytes});
    if (span.action.kind == ActionKind::weight_grad) changes.push_back({span.end, -cost(span).pending_bytes});
  }
  const auto held_bytes = [&](const Span& span) { return cost(span).held_bytes; };
  for (const auto* row : {&spans, &moves_of_stage(timeline, stage)}) add_held(changes, *row, held_bytes);
  return most_at_once(std::move(changes), true) / timeline.slices;
}

}  // namespace pipetrain::schedules
