// Simulations of the C API, and the timelines of simulations and pipelines.
#include <cmath>
#include <sstream>

#include "bindings/c/call.hpp"
#include "bindings/c/convert.hpp"
#include "bindings/c/handles.hpp"
#include "bindings/c/structs.hpp"
#include "core/error.hpp"
#include "schedules/draw/draw.hpp"
#include "schedules/simulate/simulate.hpp"
#include "schedules/simulate/stage_times.hpp"

using namespace pipetrain;
using namespace pipetrain::c_api;

namespace {

// Returns one value per element from the caller's array; empty for a null one.
std::vector<double> spread(const double* values, std::size_t given, std::size_t wanted, const char* name) {
  if (values == nullptr) return {};
  std::vector<double> result(values, values + given);
  if (given == 1) result.resize(wanted, result.front());
  for (const double value : result)
    if (std::isnan(value)) throw Error(ErrorKind::input, std::string("costs.") + name + ": not a number");
  return result;
}

void check_count(std::size_t given, std::size_t least, std::size_t most, const char* name) {
  if (given <= 1 || (given >= least && given <= most)) return;
  throw Error(ErrorKind::input,
              std::string("costs.") + name + ": " + std::to_string(given) + "; give 1 for all, or " + std::to_string(most));
}

std::vector<schedules::Link> read_edges(const pipetrain_costs& costs, std::size_t stages) {
  check_count(costs.edges, stages - 1, stages, "edges");
  const std::size_t count = costs.edges > 1 ? costs.edges : stages;
  std::vector<schedules::Link> edges(count);
  if (costs.edges == 0) return edges;
  const auto latency = spread(costs.latency, costs.edges, count, "latency");
  const auto bytes = spread(costs.bytes, costs.edges, count, "bytes");
  const auto rate = spread(costs.bytes_per_time, costs.edges, count, "bytes_per_time");
  for (std::size_t edge = 0; edge < count; ++edge) {
    if (!latency.empty()) edges[edge].latency = latency[edge];
    if (!bytes.empty()) edges[edge].bytes = bytes[edge];
    if (!rate.empty()) edges[edge].bytes_per_time = rate[edge];
  }
  return edges;
}

schedules::StageTimes read_costs(const pipetrain_costs* given, std::size_t stages) {
  const pipetrain_costs costs = read_or_default(given, "costs");
  check_count(costs.stages, stages, stages, "stages");
  const auto read = [&](const double* values, const char* name) {
    if (values != nullptr && costs.stages == 0)
      throw Error(ErrorKind::input, std::string("costs.") + name + ": is given, and costs.stages is 0; set that too");
    return spread(values, costs.stages, stages, name);
  };
  const auto read_or_one = [&](const double* values, const char* name) {
    auto result = read(values, name);
    return result.empty() ? std::vector<double>(stages, 1) : result;
  };
  schedules::StageTimes times;
  times.forward = read_or_one(costs.forward, "forward");
  times.input_grad = read_or_one(costs.input_grad, "input_grad");
  times.weight_grad = read_or_one(costs.weight_grad, "weight_grad");
  times.reduce_grads = read(costs.reduce, "reduce");
  times.sum_replicated = read(costs.sum_replicated, "sum_replicated");
  times.sum_tied = read(costs.sum_tied, "sum_tied");
  times.norm = read(costs.norm, "norm");
  times.optimizer = read(costs.optimizer, "optimizer");
  times.verdict = costs.verdict;
  times.edges = read_edges(costs, stages);
  return times;
}

// Returns the costs by number; empty if none are given.
std::vector<double> read_custom_costs(const pipetrain_costs* given, std::size_t wanted) {
  const pipetrain_costs costs = read_or_default(given, "costs");
  if (costs.custom == nullptr) return {};
  if (costs.customs != wanted)
    throw Error(ErrorKind::input, "costs.customs: " + std::to_string(costs.customs) + "; the plan has " +
                                      std::to_string(wanted) + " custom actions, give as many");
  return spread(costs.custom, wanted, wanted, "custom");
}

schedules::SimulationOptions read_simulation(const pipetrain_simulation* given) {
  const pipetrain_simulation simulation = read_or_default(given, "simulation");
  const Rules rules = read_rules(null_if_zero(simulation.rules));
  if (!std::isfinite(simulation.jitter) || simulation.jitter < 0)
    throw Error(ErrorKind::input, "simulation.jitter: must be 0 or more, and finite");
  schedules::SimulationOptions options;
  options.order = rules.order;
  options.life = rules.life;
  options.run_ahead = rules.run_ahead;
  options.room = simulation.wide_queues != 0 ? schedules::QueueRoom::all : schedules::QueueRoom::reserved;
  options.jitter = simulation.jitter;
  options.seed = simulation.seed;
  return options;
}

const std::vector<schedules::Span>& row_of(const TimelineHandle& handle, int32_t row) {
  const auto& rows = handle.timeline.stages;
  if (row < 0 || static_cast<std::size_t>(row) >= rows.size())
    throw Error(ErrorKind::input,
                "row: " + std::to_string(row) + "; the timeline has " + std::to_string(rows.size()) + " rows");
  return rows[static_cast<std::size_t>(row)];
}

std::string draw(const schedules::Timeline& timeline, int32_t format, int32_t width) {
  constexpr int most = 100000;
  if (width < 0 || width > most)
    throw Error(ErrorKind::input, "width: " + std::to_string(width) + "; use 0 to " + std::to_string(most));
  std::ostringstream out;
  switch (format) {
    case PIPETRAIN_TERMINAL:
      return schedules::draw_terminal(timeline, width == 0 ? 80 : width);
    case PIPETRAIN_SVG:
      schedules::write_svg(out, timeline, width == 0 ? 1200 : width);
      break;
    case PIPETRAIN_HTML:
      schedules::write_html(out, timeline, summarize(timeline));
      break;
    case PIPETRAIN_CHROME_TRACE:
      schedules::write_chrome_trace(out, timeline);
      break;
    case PIPETRAIN_CSV:
      schedules::write_csv(out, timeline);
      break;
    default:
      throw Error(ErrorKind::input, "format: " + std::to_string(format) + "; use PIPETRAIN_TERMINAL to PIPETRAIN_CSV");
  }
  return out.str();
}

}  // namespace

pipetrain_status pipetrain_simulate(const pipetrain_plan* given, const pipetrain_costs* given_costs,
                                    const pipetrain_simulation* simulation, pipetrain_timeline** timeline) {
  return guarded([&] {
    require(timeline, "timeline");
    const auto plan = plans().get(given);
    const auto stages = static_cast<std::size_t>(plan->placement.stages());
    schedules::Costs costs = read_costs(given_costs, stages).costs(plan->placement);
    costs.custom = read_custom_costs(given_costs, plan->custom.size());
    TimelineHandle handle;
    handle.timeline = schedules::simulate(*plan, costs, read_simulation(simulation));
    for (int v = 0; v + 1 < plan->placement.virtual_stages(); ++v) handle.transfers.push_back(costs.transfer(v));
    *timeline = timelines().add(std::make_shared<const TimelineHandle>(std::move(handle)));
  });
}

pipetrain_status pipetrain_timeline_free(pipetrain_timeline* timeline) {
  return guarded([&] {
    if (timeline != nullptr) timelines().remove(timeline);
  });
}

pipetrain_status pipetrain_timeline_summary(const pipetrain_timeline* timeline, pipetrain_summary* summary) {
  return guarded([&] {
    const auto found = timelines().get(timeline);
    const schedules::Summary all = summarize(found->timeline, found->transfers);
    write_struct(summary,
                 {sizeof(pipetrain_summary), static_cast<int32_t>(all.stages.size()), all.makespan, all.bubble_fraction,
                  all.span_bubble},
                 "summary");
  });
}

pipetrain_status pipetrain_timeline_stage(const pipetrain_timeline* timeline, int32_t row, pipetrain_stage_summary* summary) {
  return guarded([&] {
    const auto found = timelines().get(timeline);
    row_of(*found, row);
    const schedules::StageSummary one = summarize(found->timeline, found->transfers).stages[static_cast<std::size_t>(row)];
    write_struct(summary,
                 {sizeof(pipetrain_stage_summary), one.busy, one.span, one.idle, one.idle_warm_up, one.idle_steady,
                  one.idle_cool_down, one.idle_communication, one.peak_activations},
                 "summary");
  });
}

pipetrain_status pipetrain_timeline_length(const pipetrain_timeline* timeline, int32_t row, size_t* spans) {
  return guarded([&] {
    const auto found = timelines().get(timeline);
    require(spans, "spans");
    *spans = row_of(*found, row).size();
  });
}

pipetrain_status pipetrain_timeline_span(const pipetrain_timeline* timeline, int32_t row, size_t index, pipetrain_span* span) {
  return guarded([&] {
    const auto found = timelines().get(timeline);
    const auto& spans = row_of(*found, row);
    if (index >= spans.size())
      throw Error(ErrorKind::input,
                  "index: " + std::to_string(index) + "; the row has " + std::to_string(spans.size()) + " spans");
    const schedules::Span& one = spans[index];
    write_struct(span, {sizeof(pipetrain_span), to_c(one.action), static_cast<int32_t>(one.waited_for), one.start, one.end},
                 "span");
  });
}

pipetrain_status pipetrain_timeline_draw(const pipetrain_timeline* timeline, int32_t format, int32_t width, char* text,
                                         size_t capacity, size_t* length) {
  return guarded([&] { give_text(draw(timelines().get(timeline)->timeline, format, width), text, capacity, length); });
}
