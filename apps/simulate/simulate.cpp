#include "apps/simulate/simulate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <ostream>

#include "actors/training/job/combinations.hpp"
#include "actors/training/job/train_job.hpp"
#include "apps/output/output_files.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/output/terminal_width.hpp"
#include "apps/simulate/failure_report.hpp"
#include "apps/simulate/simulate_report.hpp"
#include "apps/simulate/simulated_plans.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "schedules/draw/draw.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/simulate/following_steps.hpp"

namespace pipetrain {

namespace {

using schedules::Costs;
using schedules::Plan;
using schedules::ScheduleInfo;

// Reports the bound of the whole step: after the last compute, at least its stage's N, the verdict and the longest O follow.
SolverReport report_of(const schedules::Solved& solved, const Plan& plan, const Costs& costs, double makespan) {
  SolverReport report{solved.bound, 0, solved.ended, solved.iterations};
  if (plan.stages.front().back().kind == schedules::ActionKind::optimizer) {
    report.bound += costs.verdict;
    if (!costs.norm.empty()) report.bound += *std::min_element(costs.norm.begin(), costs.norm.end());
    if (!costs.optimizer.empty()) report.bound += *std::max_element(costs.optimizer.begin(), costs.optimizer.end());
  }
  report.bound = std::min(report.bound, makespan);
  report.gap = (makespan - report.bound) / makespan;
  return report;
}

class Simulation {
 public:
  explicit Simulation(const SimulateOptions& options) : options_(options), plans_(options), notes_(options.notes) {}

  void run() {
    if (options_.plan) {
      plans_.refuse_unknown_costs(*options_.plan);
      simulate(plans_.moved(*options_.plan));
    } else if (const ScheduleInfo* one = schedules::find_schedule(options_.schedule)) {
      Plan plan = plans_.build(*one);
      plans_.refuse_unknown_costs(plan);
      simulate(std::move(plan));
    } else {
      for (const ScheduleInfo& info : schedules::all_schedules())
        if (info.name != "solver") simulate_one_of_all(info);  // it would use its whole time limit
    }
    if (runs_.empty() && options_.profile)
      throw Error(ErrorKind::input, "--costs: no schedule fits this profile; use fewer stages");
    std::stable_sort(runs_.begin(), runs_.end(), [](const auto& a, const auto& b) { return time_of(a) < time_of(b); });
  }

  void write_files() const {
    OutputFiles files;
    using schedules::Timeline;
    if (options_.svg) files.add("svg", *options_.svg, [&](std::ostream& out) { write_svg(out, timeline_); });
    if (options_.html)
      files.add("html", *options_.html, [&](std::ostream& out) { write_html(out, timeline_, runs_.front().summary); });
    if (options_.trace) files.add("trace", *options_.trace, [&](std::ostream& out) { write_chrome_trace(out, timeline_); });
    if (options_.csv) files.add("csv", *options_.csv, [&](std::ostream& out) { write_csv(out, timeline_); });
    if (options_.plan_out)
      files.add("plan-out", *options_.plan_out, [&](std::ostream& out) {
        out << (options_.plan_out->extension() == ".csv" ? to_pytorch_csv(plan_) : to_text(plan_));
      });
    files.put_in_place();
  }

  void print() const {
    for (const auto& note : notes_) print_note(note);
    if (!regrouped_.empty())
      print_note(
          fmt::format("{}: not profiled in this layout; the times are those of the profile's blocks (pp {} x chunks {}, {}) in "
                      "their new places",
                      fmt::join(regrouped_, ", "), options_.profile->pp, options_.profile->chunks, options_.profile->schedule));
    if (options_.failures) return print_failures(*options_.failures);
    if (options_.json) {
      fmt::print("{}", simulation_json(runs_));
      return;
    }
    const auto& best = runs_.front();
    fmt::print("pp {}, {}{}, ideal {:.6g}{}{}\n\n{}\n", best.pp, counted(best.microbatches, "microbatch", "es"),
               best.slices > 1 ? fmt::format(" of {} slices", best.slices) : "", best.ideal, options_.profile ? " s" : "",
               options_.jitter > 0 ? fmt::format(", deviation {:g} in {} from seed {}", options_.jitter,
                                                 counted(options_.runs, "run"), options_.seed)
                                   : "",
               schedule_table(runs_));
    fmt::print("{}: what each stage does, and when it waits\n{}\n{}\n", best.name, stage_table(best),
               critical_path_text(timeline_));
    if (options_.profile) print_prediction(best);
    fmt::print("{}", draw_terminal(timeline_, terminal_width()));
  }

 private:
  bool names_one() const { return options_.plan || schedules::find_schedule(options_.schedule) != nullptr; }
  static double time_of(const SimulatedSchedule& run) { return run.jitter ? run.jitter->median : run.summary.makespan; }

  void simulate_one_of_all(const ScheduleInfo& info) {
    TrainJob job;
    job.layout.schedule = info.name;
    job.layout.slices = options_.slices;
    job.layout.order = options_.order;
    if (const Combination* met = find_refused(features_of(job))) {
      notes_.push_back(fmt::format("{} is left out: {}", info.name, met->why));
      return;
    }
    if (info.uses_costs && std::int64_t{options_.pp} * options_.microbatches > schedules::largest_search) {
      notes_.push_back(fmt::format("{} is left out: its search takes long for so many actions; ask for it alone", info.name));
      return;
    }
    Plan plan;
    try {
      plan = plans_.build(info);
    } catch (const Error& error) {  // thrown by auto if the profile has no times for several chunks
      notes_.push_back(fmt::format("{} is left out: {}", info.name, error.what()));
      return;
    }
    const auto why = plans_.why_not(plan);
    if (why.empty()) {
      simulate(std::move(plan));
    } else {
      notes_.push_back(fmt::format("{} is left out: {}", info.name, why));
    }
  }

  // Keeps plan and timeline of the fastest schedule only, because large ones take gigabytes.
  void simulate(Plan compute) {
    Plan plan = plans_.ended(std::move(compute));
    if (plans_.regroups(plan)) regrouped_.push_back(plan.schedule);
    const Costs costs = plans_.costs_of(plan);
    schedules::SimulationOptions how;
    how.order = options_.order;
    how.room = plans_.room();
    how.jitter = options_.jitter;
    how.seed = options_.seed;
    SimulatedSchedule run;
    run.name = plan.schedule;
    run.pp = options_.pp;
    run.chunks = plan.placement.chunks();
    run.microbatches = plan.microbatches / plan.slices;
    run.slices = plan.slices;
    if (options_.jitter > 0) run.jitter = jitter_of(plan, costs, how);
    schedules::Timeline timeline = schedules::simulate(plan, costs, how);
    if (options_.profile || options_.times.seconds) timeline.unit = "s";
    std::vector<double> transfers;
    for (int v = 0; v + 1 < plan.placement.virtual_stages(); ++v) transfers.push_back(costs.transfer(v));
    run.summary = summarize(timeline, transfers);
    for (std::size_t stage = 0; options_.profile && stage < timeline.stages.size(); ++stage)
      run.peak_bytes.push_back(peak_bytes(timeline, static_cast<int>(stage), costs.chunks[stage]));
    run.ideal = ideal_time(costs, plan.microbatches);
    if (options_.post_validation) run.following = following(plan, costs);
    if (plans_.solved() && options_.jitter == 0) run.solver = report_of(*plans_.solved(), plan, costs, run.summary.makespan);
    for (const auto& actions : plan.stages) run.actions += std::ssize(actions);
    if (!options_.slots.empty()) run.fits = true;
    for (std::size_t stage = 0; stage < options_.slots.size(); ++stage)
      run.fits = *run.fits && run.summary.stages[stage].peak_activations <= options_.slots[stage] + 1e-9;
    if (runs_.empty() || time_of(run) < best_time_) {
      best_time_ = time_of(run);
      plan_ = std::move(plan);
      timeline_ = std::move(timeline);
    }
    runs_.push_back(std::move(run));
  }

  // Returns nothing, with a note, for a schedule among "all" that cannot be simulated so.
  std::optional<FollowingReport> following(const Plan& plan, const Costs& costs) {
    const auto needs = schedules::validate(plan);
    try {
      return FollowingReport{schedules::simulate_following(plan, costs, needs),
                             schedules::simulate_following(plan, costs, needs, {.early = stages_that_wait(plan, needs)})};
    } catch (const std::invalid_argument& error) {
      if (names_one()) throw Error(ErrorKind::input, fmt::format("--post-validation on: {}; turn it off", error.what()));
      notes_.push_back(fmt::format("{} is simulated for one step alone: {}", plan.schedule, error.what()));
      return std::nullopt;
    }
  }

  // Sets how.seed to that of the run with the median time, which is shown.
  JitterReport jitter_of(const Plan& plan, const Costs& costs, schedules::SimulationOptions& how) const {
    const auto result = simulate_jitter(plan, costs, options_.runs, how);
    std::vector<std::size_t> order(result.makespans.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto middle = order.begin() + (std::ssize(order) - 1) / 2;
    std::nth_element(order.begin(), middle, order.end(),
                     [&](std::size_t a, std::size_t b) { return result.makespans[a] < result.makespans[b]; });
    how.seed += *middle;
    return {options_.runs, options_.seed, result.median, result.p95};
  }

  void print_failures(const FailureOptions& failures) const {
    schedules::SimulationOptions how;
    how.order = options_.order;
    how.room = plans_.room();
    const double predicted = time_of(runs_.front()) + (options_.profile ? options_.profile->outside : 0);
    const auto months = simulate_months(failures, plan_, plans_.costs_of(plan_), how, failures.step.value_or(predicted));
    fmt::print("{}", options_.json ? months_json(months) : months_table(failures, months));
  }

  void print_prediction(const SimulatedSchedule& run) const {
    const Profile& profile = *options_.profile;
    fmt::print(
        "predicted step: {:.6g} s, of which {:.3g} s are outside the pipeline; the profiled run ({}, {} microbatches, {} "
        "steps; {}) took {:.6g} s\n\n",
        time_of(run) + profile.outside, profile.outside, profile.schedule, profile.microbatches, profile.steps,
        profile.conditions(), profile.step_seconds);
  }

  const SimulateOptions& options_;
  SimulatedPlans plans_;
  std::vector<std::string> notes_;
  std::vector<std::string> regrouped_;   // schedules whose times are computed from the profile's blocks
  std::vector<SimulatedSchedule> runs_;  // the fastest first, after run()
  double best_time_ = 0;
  Plan plan_;
  schedules::Timeline timeline_;
};

}  // namespace

int run_simulate(const SimulateOptions& options) {
  Simulation simulation(options);
  simulation.run();
  simulation.write_files();
  simulation.print();
  return 0;
}

}  // namespace pipetrain
