// Compares the goodput of real runs, whose processes are killed at random times, with the one that the simulation of long runs
// (simulate --failures) gives for as many losses and for the times that undisturbed runs and single losses take here.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/faults/begun_steps.hpp"
#include "bench/faults/marked_processes.hpp"
#include "bench/faults/program_run.hpp"
#include "bench/faults/run_results.hpp"
#include "bench/faults/seeded_bench.hpp"
#include "bench/result.hpp"
#include "records/metrics_line.hpp"
#include "schedules/simulate/long_run.hpp"
#include "schedules/simulate/median.hpp"

namespace {

namespace fs = std::filesystem;
using namespace pipetrain::bench;
using Clock = std::chrono::steady_clock;
using pipetrain::schedules::LongRun;
using pipetrain::schedules::LongRunResult;
using pipetrain::schedules::median_of;
using pipetrain::schedules::Recovery;

constexpr int processes = 3, steps = 240, steps_between_saves = 20;
constexpr double steps_between_losses = 40;  // of all processes together, on average
constexpr std::chrono::seconds longest_run{200};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// A run of the tiny model, one replica a process at first. Its steps take long enough for a loss to cost a few of them.
class Run {
 public:
  Run(Recovery recovery, int number_of_processes, int number_of_steps, const fs::path& folder)
      : folder_(emptied(folder)),
        steps_(number_of_steps),
        run_(command(recovery, number_of_processes, number_of_steps, folder), {mark_.variable()}, folder / "err") {}
  ~Run() {
    mark_.kill_all();
    fs::remove_all(folder_);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  fs::path metrics() const { return folder_ / "metrics"; }
  ProgramRun& program() { return run_; }
  // Waits for this many steps. Returns false where the run ended before.
  bool reaches(int step) { return wait_for_lines(run_, metrics(), step) || ends(); }
  // Kills one of the run's processes, which the random number chooses. Returns false where there is none at the moment.
  bool kill_one(std::uint64_t random) const {
    const std::vector<MarkedProcess> alive = mark_.launched();
    return !alive.empty() && ::kill(alive[random % alive.size()].id, SIGKILL) == 0;
  }
  // Waits for the end. Returns false where the run failed.
  bool ends() {
    const auto status = run_.wait(longest_run);
    if (status == 0 && lines_of(metrics()) == steps_) return true;
    fmt::print(stderr, "a run ended with status {}: {}\n", status.value_or(-1), run_.err());
    return false;
  }

 private:
  static fs::path emptied(const fs::path& folder) {
    fs::remove_all(folder);
    fs::create_directories(folder);
    return folder;
  }
  static std::vector<std::string> command(Recovery recovery, int number_of_processes, int number_of_steps,
                                          const fs::path& folder) {
    std::istringstream words(fmt::format(
        "{} launch --nproc {} --dp {} --microbatches 2 --device cpu --threads 1 --seq-len 128 --microbatch 4 --steps {} "
        "--save-interval {} --save-keep 2 --resume --restart 1000 --log-interval 1000000 --save {} --metrics {} {}",
        measured_program().string(), number_of_processes, processes, number_of_steps, steps_between_saves,
        (folder / "run").string(), (folder / "metrics").string(),
        recovery == Recovery::takeover ? "--elastic takeover --restart-processes 1000" : ""));
    return {std::istream_iterator<std::string>(words), {}};
  }

  fs::path folder_;
  int steps_;
  ProcessMark mark_;
  ProgramRun run_;
};

// Returns the seconds from the end of the first step to the end of the last one of a run that nothing disturbs.
std::optional<double> undisturbed_seconds(Recovery recovery, int number_of_processes, int number_of_steps,
                                          const fs::path& folder) {
  Run run(recovery, number_of_processes, number_of_steps, folder);
  if (!run.reaches(1)) return std::nullopt;
  const auto begin = Clock::now();
  wait_for_lines(run.program(), run.metrics(), number_of_steps);
  const double seconds = seconds_since(begin);
  return run.ends() ? std::optional(seconds) : std::nullopt;
}

// Seconds that single losses cost, and how long steps take with and without one of the processes.
struct Costs {
  std::vector<double> takeover, repair, restart, whole_step, fewer_step;
};

// Measures until the others repeat the step, and until the process that launch starts anew has joined them. The simulation
// counts the pause in which the ranks move to that process apart.
void measure_takeover(const fs::path& folder, std::uint64_t random, Costs& costs) {
  Run run(Recovery::takeover, processes, steps, folder);
  if (!run.reaches(5)) return;
  run.kill_one(random);
  const auto begin = Clock::now();
  const auto taken = wait_for_step_after(1, run.metrics(), run.program(), begin);
  if (!taken) return;
  costs.takeover.push_back(taken->seconds);
  if (const auto joined = wait_for_step_after(taken->membership, run.metrics(), run.program(), begin))
    costs.repair.push_back(std::max(0.0, joined->seconds - taken->seconds));
}

// Measures until the first step begins of the run that is started again. It writes its metrics anew, because there is no
// checkpoint yet.
void measure_restart(const fs::path& folder, std::uint64_t random, Costs& costs) {
  Run run(Recovery::restart, processes, steps, folder);
  if (!run.reaches(1)) return;
  const std::string first = text_of(run.metrics()), before = first.substr(0, first.find('\n') + 1);
  run.kill_one(random);
  const auto begin = Clock::now();
  while (!run.program().wait(std::chrono::milliseconds(1))) {
    const std::string text = text_of(run.metrics());
    if (text.find('\n') == text.npos || text.starts_with(before)) continue;
    const auto step = pipetrain::parse_metrics_line(text.substr(0, text.find('\n')), "metrics");
    costs.restart.push_back(std::max(0.0, seconds_since(begin) - (step ? step->seconds : 0)));
    return;
  }
}

Costs measure_costs(SeededOptions options, const fs::path& folder) {
  Costs costs;
  std::mutex mutex;
  options.runs = std::max(3, options.workers);
  for_each_seed(options, [&](std::uint64_t seed) {
    const fs::path own = folder / fmt::format("costs-{}", seed);
    std::mt19937_64 random(seed);
    Costs one;
    measure_takeover(own, random(), one);
    measure_restart(own, random(), one);
    const auto whole = undisturbed_seconds(Recovery::takeover, processes, steps / 4, own),
               fewer = undisturbed_seconds(Recovery::takeover, processes - 1, steps / 4, own);
    const std::lock_guard lock(mutex);
    for (std::vector<double> Costs::*times : {&Costs::takeover, &Costs::repair, &Costs::restart})
      (costs.*times).insert((costs.*times).end(), (one.*times).begin(), (one.*times).end());
    if (whole) costs.whole_step.push_back(*whole / (steps / 4 - 1));
    if (fewer) costs.fewer_step.push_back(*fewer / (steps / 4 - 1));
  });
  return costs;
}

// Sums over real runs, and over runs with the same steps that nothing disturbs.
struct RealRuns {
  int runs = 0, losses = 0;
  double seconds = 0, undisturbed = 0;
};

// Kills processes at exponential times until the run has done all of its steps.
std::optional<RealRuns> disturbed_run(Recovery recovery, double rate, const fs::path& folder, std::uint64_t seed) {
  const auto undisturbed = undisturbed_seconds(recovery, processes, steps, folder);
  Run run(recovery, processes, steps, folder);
  if (!undisturbed || !run.reaches(1)) return std::nullopt;
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(rate);
  RealRuns real{.runs = 1, .undisturbed = *undisturbed};
  const auto begin = Clock::now();
  for (double next = gap(random); lines_of(run.metrics()) < steps && run.program().running();) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (seconds_since(begin) < next) continue;
    real.losses += run.kill_one(random()) ? 1 : 0;
    next += gap(random);
  }
  real.seconds = seconds_since(begin);
  return run.ends() ? std::optional(real) : std::nullopt;
}

// Returns the mean of many simulated runs that are as long, and lose as many processes, as the real ones.
double simulated_goodput(LongRun run, const RealRuns& real) {
  run.length = real.seconds / real.runs;
  run.step = real.undisturbed / real.runs / (steps - 1);
  run.save_every = steps_between_saves * run.step;
  run.host_rate = real.losses / real.seconds / run.hosts;
  constexpr int draws = 2000;
  double sum = 0;
  for (run.seed = 0; run.seed < draws; ++run.seed) sum += pipetrain::schedules::simulate_long_run(run).goodput;
  return sum / draws;
}

bool compare(const char* name, const LongRun& simulated, double rate, const SeededOptions& options, const fs::path& folder) {
  RealRuns real;
  std::mutex mutex;
  for_each_seed(options, [&](std::uint64_t seed) {
    const auto one = disturbed_run(simulated.recovery, rate, folder / fmt::format("{}-{}", name, seed), seed);
    const std::lock_guard lock(mutex);
    if (!one) return;
    real.runs += one->runs, real.losses += one->losses, real.seconds += one->seconds, real.undisturbed += one->undisturbed;
    fmt::print(stderr, "{}, seed {}: {} losses, {:.2f} s, {:.2f} s undisturbed\n", name, seed, one->losses, one->seconds,
               one->undisturbed);
  });
  if (!report(fmt::format("{}: real runs", name), real.runs, "runs", Limit::at_least, 1)) return false;
  const double measured = real.undisturbed / real.seconds, predicted = simulated_goodput(simulated, real);
  report(fmt::format("{}: losses", name), real.losses, "processes");
  report(fmt::format("{}: goodput of real runs", name), 100 * measured, "%");
  report(fmt::format("{}: simulated goodput", name), 100 * predicted, "%");
  report(fmt::format("{}: simulated less real", name), 100 * (predicted - measured), "points");
  return true;
}

bool compare_all(const SeededOptions& options, const fs::path& folder) {
  const Costs costs = measure_costs(options, folder);
  for (const auto& times : {costs.takeover, costs.repair, costs.restart, costs.whole_step, costs.fewer_step})
    if (!report("times of one kind", static_cast<double>(times.size()), "runs", Limit::at_least, 1)) return false;
  const double step = median_of(costs.whole_step), rate = 1 / (steps_between_losses * step);
  LongRun run;
  run.hosts = processes;
  run.slowdowns = {std::max(1.0, median_of(costs.fewer_step) / step)};
  run.takeover = median_of(costs.takeover);
  run.restart = median_of(costs.restart);
  report("seconds of a step", step, "s");
  report("seconds between two losses", 1 / rate, "s");
  report("seconds until a takeover", run.takeover, "s");
  report("seconds until a restart", run.restart, "s");
  report("slowdown with one process fewer", run.slowdowns.front(), "x");
  run.recovery = Recovery::restart;
  bool pass = compare("restart", run, rate, options, folder);
  run.recovery = Recovery::takeover;
  run.repair = median_of(costs.repair);
  report("seconds until another process is ready", run.repair, "s");
  pass &= compare("takeover", run, rate, options, folder);
  return pass;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = read_seeded_options(argc, argv, "goodput", 4);
  if (!options) return 2;
  const fs::path folder = make_bench_folder("goodput");
  const bool pass = compare_all(*options, folder);
  fs::remove_all(folder);
  return pass ? 0 : 1;
}
