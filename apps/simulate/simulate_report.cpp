#include "apps/simulate/simulate_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "files/json_value.hpp"

namespace pipetrain {

namespace {

constexpr std::size_t timeline_width = 80;
constexpr std::size_t most_stage_rows = 32;

double most_held(const schedules::Summary& summary) {
  double held = 0;
  for (const auto& stage : summary.stages) held = std::max(held, stage.peak_activations);
  return held;
}

const char* end_name(schedules::SolverEnd end) {
  switch (end) {
    case schedules::SolverEnd::proved:
      return "proved";
    case schedules::SolverEnd::searched:
      return "searched";
    case schedules::SolverEnd::iterations:
      return "iterations";
    case schedules::SolverEnd::seconds:
      return "seconds";
  }
  return "?";
}

Json schedule_json(const SimulatedSchedule& run) {
  const auto per_stage = [&](double schedules::StageSummary::*member) {
    auto values = Json::array();
    for (const auto& stage : run.summary.stages) values.push_back(stage.*member);
    return values;
  };
  Json object = Json::object({{"schedule", run.name},
                              {"pp", run.pp},
                              {"chunks", run.chunks},
                              {"microbatches", run.microbatches},
                              {"makespan", run.summary.makespan},
                              {"ideal", run.ideal},
                              {"bubble_fraction", run.summary.bubble_fraction},
                              {"span_bubble", run.summary.span_bubble},
                              {"span", per_stage(&schedules::StageSummary::span)},
                              {"idle", per_stage(&schedules::StageSummary::idle)},
                              {"peak_activations", per_stage(&schedules::StageSummary::peak_activations)},
                              {"actions", run.actions},
                              {"valid", true}});  // invalid plans were refused
  if (run.fits) object["fits_memory_slots"] = *run.fits;
  if (run.solver) {
    object["bound"] = run.solver->bound;
    object["gap"] = run.solver->gap;
    object["solver"] = Json::object({{"ended", end_name(run.solver->ended)}, {"iterations", run.solver->iterations}});
  }
  if (run.following) {
    const auto json_of_steps = [](const schedules::FollowingSteps& steps) {
      return Json::object({{"step", steps.step}, {"bubble_fraction", steps.bubble}});
    };
    object["post_validation"] =
        Json::object({{"off", json_of_steps(run.following->off)}, {"on", json_of_steps(run.following->on)}});
  }
  if (run.jitter)
    object["jitter"] = Json::object(
        {{"runs", run.jitter->runs}, {"seed", run.jitter->seed}, {"median", run.jitter->median}, {"p95", run.jitter->p95}});
  return object;
}

std::string solver_line(const SolverReport& solver) {
  if (solver.ended == schedules::SolverEnd::proved)
    return fmt::format("solver: the best order there is, proved after {} iterations\n", solver.iterations);
  const char* why = solver.ended == schedules::SolverEnd::searched
                        ? "the best order with unlimited queues; a run's queues are smaller"
                        : "more time or iterations may find more";
  return fmt::format("solver: no order takes less than {:.6g}, gap {:.2f} % after {} iterations; {}\n", solver.bound,
                     100 * solver.gap, solver.iterations, why);
}

std::string following_line(const SimulatedSchedule& run) {
  const auto& [off, on] = *run.following;
  return fmt::format("{}: consecutive steps take {:.6g} with {:.1f} % idle; with post-validation {:.6g} with {:.1f} %\n",
                     run.name, off.step, 100 * off.bubble, on.step, 100 * on.bubble);
}

// A contiguous part of the path on one stage: "F0" .. "B3".
struct Stretch {
  int stage = 0;
  std::string first, last;
};

std::vector<Stretch> stretches(const schedules::Timeline& timeline, const std::vector<schedules::SpanRef>& path) {
  std::vector<Stretch> found;
  for (const auto& [stage, index] : path) {
    const auto& action = timeline.stages[static_cast<std::size_t>(stage)][index].action;
    const std::string text = to_string(action, timeline.form());
    if (found.empty() || found.back().stage != stage) {
      found.push_back({stage, text, text});
    } else {
      found.back().last = text;
    }
  }
  return found;
}

}  // namespace

std::string simulation_json(const std::vector<SimulatedSchedule>& runs) {
  std::string text = "[";
  for (const auto& run : runs)
    text += (text.size() > 1 ? ",\n " : "\n ") + schedule_json(run).dump({.order = JsonOrder::as_added, .replace = true});
  return text + "\n]\n";
}

std::string schedule_table(const std::vector<SimulatedSchedule>& runs) {
  const bool jitter = !runs.empty() && runs.front().jitter;
  std::size_t name_width = 10;
  for (const auto& run : runs) name_width = std::max(name_width, run.name.size());
  std::string text =
      fmt::format("{:<{}} {:>6} {:>10} {:>10} {:>7} {:>11} {:>6}{}\n", "schedule", name_width, "chunks",
                  jitter ? "median" : "time", jitter ? "p95" : "over ideal", "bubble", "span bubble", "held", "");
  bool all_fit = true;
  for (const auto& run : runs) {
    const double second = jitter ? run.jitter->p95 : run.summary.makespan - run.ideal;
    text += fmt::format("{:<{}} {:>6} {:>10.6g} {:>10.5g} {:>5.1f} % {:>11.5g} {:>6.4g}{}\n", run.name, name_width, run.chunks,
                        jitter ? run.jitter->median : run.summary.makespan, second, 100 * run.summary.bubble_fraction,
                        run.summary.span_bubble, most_held(run.summary), run.fits.value_or(true) ? "" : " *");
    all_fit = all_fit && run.fits.value_or(true);
  }
  if (!all_fit) text += "* holds more than the memory slots\n";
  for (const auto& run : runs)
    if (run.solver) text += solver_line(*run.solver);
  for (const auto& run : runs)
    if (run.following) text += following_line(run);
  return text;
}

std::string stage_table(const SimulatedSchedule& run) {
  const schedules::Summary& summary = run.summary;
  const bool bytes = !run.peak_bytes.empty();
  std::string text = fmt::format("{:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}{}\n", "stage", "busy", "span", "warm-up",
                                 "steady", "cool-down", "messages", "held", bytes ? "     MiB" : "");
  const std::size_t stages = summary.stages.size();
  for (std::size_t i = 0; i < stages; ++i) {
    if (stages > most_stage_rows && i == most_stage_rows / 2) {
      text += fmt::format("{:>5} {} stages between\n", "...", stages - most_stage_rows);
      i = stages - most_stage_rows / 2;
    }
    const auto& stage = summary.stages[i];
    text += fmt::format("{:>5} {:>9.5g} {:>9.5g} {:>9.5g} {:>9.5g} {:>9.5g} {:>9.5g} {:>6.4g}{}\n", i, stage.busy, stage.span,
                        stage.idle_warm_up, stage.idle_steady, stage.idle_cool_down, stage.idle_communication,
                        stage.peak_activations, bytes ? fmt::format(" {:>7.5g}", run.peak_bytes[i] / (1 << 20)) : "");
  }
  return text;
}

std::string critical_path_text(const schedules::Timeline& timeline) {
  const auto path = schedules::critical_path(timeline);
  std::string text, line = fmt::format("critical path, {} actions:", path.size());
  int lines = 0;
  for (const auto& [stage, first, last] : stretches(timeline, path)) {
    const std::string word = fmt::format(" {}:{}{}", stage, first, first == last ? "" : ".." + last);
    if (line.size() + word.size() > timeline_width) {
      text += line + "\n";
      line = " ";
      if (++lines == 4) {
        line += " ...";
        break;
      }
    }
    line += word;
  }
  return text + line + "\n";
}

}  // namespace pipetrain
