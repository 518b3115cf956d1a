// Simulations and timelines in Python.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/python/bind.hpp"
#include "core/error.hpp"
#include "schedules/draw/draw.hpp"
#include "schedules/search/auto_schedule.hpp"
#include "schedules/simulate/simulate.hpp"
#include "schedules/simulate/stage_times.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pipetrain::python {

namespace {

using schedules::Plan;
using schedules::StageTimes;
using schedules::Timeline;

// Reads the times of whole stages, one for all or one per stage, from keyword arguments.
StageTimes read_times(const nb::dict& costs, std::size_t stages) {
  const auto read = [&](const char* name, double otherwise, bool may_be_missing) -> std::vector<double> {
    if (!costs.contains(name)) return may_be_missing ? std::vector<double>{} : std::vector<double>(stages, otherwise);
    auto values = nb::cast<std::vector<double>>(costs[name]);
    if (values.size() == 1) values.resize(stages, values.front());
    if (values.size() != stages)
      throw Error(ErrorKind::input, {name, std::to_string(values.size()) + " values"},
                  "give one for all, or one for each of " + std::to_string(stages) + " stages");
    return values;
  };
  StageTimes times;
  times.forward = read("forward", 1, false);
  times.input_grad = read("input_grad", 1, false);
  times.weight_grad = read("weight_grad", 1, false);
  times.reduce_grads = read("reduce_grads", 0, true);
  times.sum_replicated = read("sum_replicated", 0, true);
  times.sum_tied = read("sum_tied", 0, true);
  times.norm = read("norm", 0, true);
  times.optimizer = read("optimizer_time", 0, true);
  if (costs.contains("custom")) times.custom = nb::cast<std::map<std::string, double>>(costs["custom"]);
  if (costs.contains("verdict")) times.verdict = nb::cast<double>(costs["verdict"]);
  times.edges.resize(stages);
  const auto p2p = costs.contains("p2p") ? nb::cast<std::vector<double>>(costs["p2p"]) : std::vector<double>{0};
  if (p2p.size() > 1) times.edges.resize(p2p.size());
  for (std::size_t edge = 0; edge < times.edges.size(); ++edge)
    times.edges[edge].latency = p2p.size() > 1 ? p2p[edge] : p2p.at(0);
  return times;
}

schedules::SimulationOptions read_simulation_options(const nb::dict& how) {
  schedules::SimulationOptions options;
  options.order = order_of(nb::cast<std::string>(how["order"]));
  options.room = nb::cast<bool>(how["wide_queues"]) ? schedules::QueueRoom::all : schedules::QueueRoom::reserved;
  options.jitter = nb::cast<double>(how["jitter"]);
  options.seed = nb::cast<std::uint64_t>(how["seed"]);
  if (!(options.jitter >= 0 && options.jitter <= 10)) throw Error(ErrorKind::input, {"jitter", ""}, "must be from 0 to 10");
  return options;
}

nb::dict summary_of(const Timeline& timeline, const std::vector<double>& transfers) {
  const schedules::Summary summary = summarize(timeline, transfers);
  nb::list span, idle, busy, peak;
  for (const auto& stage : summary.stages) {
    span.append(stage.span);
    idle.append(stage.idle);
    busy.append(stage.busy);
    peak.append(stage.peak_activations);
  }
  nb::dict result;
  result["makespan"] = summary.makespan;
  result["bubble_fraction"] = summary.bubble_fraction;
  result["span_bubble"] = summary.span_bubble;
  result["span"] = span;
  result["idle"] = idle;
  result["busy"] = busy;
  result["peak_activations"] = peak;
  return result;
}

// Returns the timeline, its summary, and the time of a step that is never idle.
std::tuple<Timeline, nb::dict, double> simulate(const Plan& plan, const nb::dict& given, const nb::dict& how) {
  const schedules::Costs costs = read_times(given, static_cast<std::size_t>(plan.placement.stages())).costs(plan);
  const auto options = read_simulation_options(how);
  Timeline timeline;
  {
    const nb::gil_scoped_release released;
    timeline = schedules::simulate(plan, costs, options);
  }
  std::vector<double> transfers;
  for (int v = 0; v + 1 < plan.placement.virtual_stages(); ++v) transfers.push_back(costs.transfer(v));
  nb::dict summary = summary_of(timeline, transfers);
  return {std::move(timeline), std::move(summary), schedules::ideal_time(costs, plan.microbatches)};
}

// Returns the plan of `auto` for these costs.
Plan build_auto(int stages, int microbatches, const nb::dict& given, const std::vector<double>& slots) {
  if (stages < 1 || microbatches < 1 || std::int64_t{1} * stages * microbatches > schedules::largest_search)
    throw Error(ErrorKind::input, {"microbatches", std::to_string(microbatches)},
                "the search of auto takes from 1 to " + std::to_string(schedules::largest_search) + " stages x microbatches");
  const StageTimes times = read_times(given, static_cast<std::size_t>(stages));
  schedules::AutoRequest request;
  request.stages = stages;
  request.microbatches = microbatches;
  request.forward = times.forward;
  request.input_grad = times.input_grad;
  request.weight_grad = times.weight_grad;
  request.edges = times.edges;
  request.slots = slots;
  const nb::gil_scoped_release released;
  Plan plan = schedules::build_auto(request);
  if (plan.stages.empty()) throw Error(ErrorKind::input, {"memory_slots", ""}, "auto found no plan that keeps them; give more");
  return plan;
}

using SpanRow = std::tuple<std::string, double, double, std::string>;

std::vector<SpanRow> spans_of(const Timeline& timeline, int row) {
  if (row < 0 || row >= std::ssize(timeline.stages))
    throw Error(ErrorKind::input, {"row", std::to_string(row)},
                "the timeline has " + std::to_string(timeline.stages.size()) + " rows");
  std::vector<SpanRow> spans;
  for (const auto& span : timeline.stages[static_cast<std::size_t>(row)])
    spans.emplace_back(to_string(span.action, timeline.form()), span.start, span.end, schedules::to_string(span.waited_for));
  return spans;
}

template <class Write>
std::string written(Write write) {
  std::ostringstream out;
  write(out);
  return out.str();
}

}  // namespace

void bind_simulation(nb::module_& module) {
  module.def("simulate", simulate, "plan"_a, "costs"_a, "how"_a);
  module.def("build_auto", build_auto, "stages"_a, "microbatches"_a, "costs"_a, "slots"_a);
  nb::class_<Timeline>(module, "Timeline", "What every stage did when, simulated or measured.")
      .def_prop_ro("title", [](const Timeline& timeline) { return timeline.title; })
      .def_prop_ro(
          "unit", [](const Timeline& timeline) { return timeline.unit; },
          "The unit of its times: 's' where they were measured.")
      .def_prop_ro(
          "rows", [](const Timeline& timeline) { return timeline.stages.size(); }, "The stages of each replica.")
      .def("spans", spans_of, "row"_a, "Action, start, end and what the start waited for, in order of time.")
      .def(
          "summary", [](const Timeline& timeline) { return summary_of(timeline, {}); },
          "makespan, bubble_fraction, span_bubble; span, idle, busy and peak_activations per row.")
      .def(
          "terminal", [](const Timeline& timeline, int width) { return schedules::draw_terminal(timeline, width); },
          "width"_a = 100, "One line a stage.")
      .def(
          "svg",
          [](const Timeline& timeline, int width) {
            return written([&](std::ostream& out) { schedules::write_svg(out, timeline, width); });
          },
          "width"_a = 1000)
      .def(
          "html",
          [](const Timeline& timeline) {
            return written([&](std::ostream& out) { schedules::write_html(out, timeline, summarize(timeline)); });
          },
          "One page that needs nothing else.")
      .def(
          "chrome_trace",
          [](const Timeline& timeline) {
            return written([&](std::ostream& out) { schedules::write_chrome_trace(out, timeline); });
          },
          "JSON for chrome://tracing and ui.perfetto.dev.")
      .def(
          "csv",
          [](const Timeline& timeline) { return written([&](std::ostream& out) { schedules::write_csv(out, timeline); }); },
          "Header and one row per action.")
      .def("_repr_svg_",
           [](const Timeline& timeline) {
             return written([&](std::ostream& out) { schedules::write_svg(out, timeline, 1000); });
           })
      .def("__repr__", [](const Timeline& timeline) {
        return "<pipetrain.Timeline " + timeline.title + ">\n" + schedules::draw_terminal(timeline, 100);
      });
}

}  // namespace pipetrain::python
