// Compares the goodput of real runs, whose processes are killed at a known rate, with the one that the simulation of long
// runs (simulate --failures) gives for the times that undisturbed runs and single losses take here.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
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
#include "schedules/simulate/long_run.hpp"
#include "schedules/simulate/median.hpp"

namespace {

namespace fs = std::filesystem;
using namespace pipetrain::bench;
using Clock = std::chrono::steady_clock;
using pipetrain::schedules::LongRun;
using pipetrain::schedules::LongRunResult;
using pipetrain::schedules::Recovery;

constexpr int processes = 3, steps = 900, steps_between_saves = 100;
constexpr double steps_between_losses = 150;  // of all processes together, on average
constexpr std::chrono::seconds longest_run{300};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// A run of the tiny model as a pipeline, one stage a process at first.
class Run {
 public:
  Run(Recovery recovery, int number_of_processes, int number_of_steps, const fs::path& folder)
      : folder_(emptied(folder)),
        steps_(number_of_steps),
        run_(command(recovery, number_of_processes, number_of_steps, folder), {mark_.variable()}, folder / "err") {}
  ~Run() { mark_.kill_all(); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  fs::path metrics() const { return folder_ / "metrics"; }
  ProgramRun& program() { return run_; }
  // Waits for the first step. Returns false where the run ended before.
  bool begins() { return wait_for_lines(run_, metrics(), 1) || ends(); }
  // Kills one of the run's processes, which the random number chooses.
  void kill_one(std::uint64_t random) const {
    const std::vector<pid_t> alive = mark_.launched();
    if (!alive.empty()) ::kill(alive[random % alive.size()], SIGKILL);
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
    std::istringstream words(
        fmt::format("{} launch --nproc {} --pp {} --microbatches 6 --device cpu --threads 1 --seq-len 64 --steps {} "
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

// Returns the seconds from the first step to the last one of a run that nothing disturbs.
std::optional<double> undisturbed_seconds(Recovery recovery, int number_of_processes, int number_of_steps,
                                          const fs::path& folder) {
  Run run(recovery, number_of_processes, number_of_steps, folder);
  if (!run.begins()) return std::nullopt;
  const auto begin = Clock::now();
  wait_for_lines(run.program(), run.metrics(), number_of_steps);
  const double seconds = seconds_since(begin);
  return run.ends() ? std::optional(seconds) : std::nullopt;
}

// Measures what one loss costs, for the simulation.
struct LossTimes {
  std::vector<double> takeover, repair, restart;
};

void measure_takeover(const fs::path& folder, std::uint64_t random, LossTimes& times) {
  Run run(Recovery::takeover, processes, steps / 2, folder);
  if (!run.begins()) return;
  run.kill_one(random);
  const auto begin = Clock::now();
  const auto taken = wait_for_step_after(1, run.metrics(), run.program(), begin);
  if (!taken) return;
  times.takeover.push_back(taken->seconds);
  if (const auto joined = wait_for_step_after(taken->membership, run.metrics(), run.program(), begin))
    times.repair.push_back(joined->seconds);
  run.ends();
}

// The restarted run writes its metrics anew, from the start because there is no checkpoint yet.
void measure_restart(const fs::path& folder, std::uint64_t random, LossTimes& times) {
  Run run(Recovery::restart, processes, steps / 2, folder);
  if (!run.begins()) return;
  const std::string first = text_of(run.metrics()), before = first.substr(0, first.find('\n') + 1);
  run.kill_one(random);
  const auto begin = Clock::now();
  const auto is_anew = [&](const std::string& text) { return text.find('\n') != text.npos && !text.starts_with(before); };
  while (!run.program().wait(std::chrono::milliseconds(1)) && !is_anew(text_of(run.metrics()))) {
  }
  times.restart.push_back(seconds_since(begin));
  run.ends();
}

struct Goodput {
  double real = 0, simulated = 0;
  int losses = 0;
};

// Kills processes at exponential times until the run has done all of its steps.
std::optional<Goodput> disturbed_goodput(LongRun simulated, const fs::path& folder, std::uint64_t seed) {
  const auto undisturbed = undisturbed_seconds(simulated.recovery, processes, steps, folder);
  Run run(simulated.recovery, processes, steps, folder);
  if (!undisturbed || !run.begins()) return std::nullopt;
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(simulated.host_rate * simulated.hosts);
  Goodput goodput;
  const auto begin = Clock::now();
  for (double next = gap(random); lines_of(run.metrics()) < steps && run.program().running();) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (seconds_since(begin) < next) continue;
    run.kill_one(random());
    ++goodput.losses;
    next += gap(random);
  }
  const double seconds = seconds_since(begin);
  if (!run.ends()) return std::nullopt;
  goodput.real = *undisturbed / seconds;
  simulated.length = seconds;
  simulated.step = *undisturbed / steps;
  simulated.save_every = steps_between_saves * simulated.step;
  constexpr int draws = 2000;
  for (simulated.seed = 0; simulated.seed < draws; ++simulated.seed)
    goodput.simulated += pipetrain::schedules::simulate_long_run(simulated).goodput / draws;
  return goodput;
}

bool compare(const char* name, const LongRun& simulated, const SeededOptions& options, const fs::path& folder) {
  double real = 0, predicted = 0;
  int runs = 0, losses = 0;
  for (int run = 0; run < options.runs; ++run) {
    const auto goodput = disturbed_goodput(simulated, folder / name, options.seed + static_cast<std::uint64_t>(run));
    if (!goodput) return false;
    real += goodput->real, predicted += goodput->simulated, losses += goodput->losses, ++runs;
  }
  report(fmt::format("{}: losses", name), losses, "processes");
  report(fmt::format("{}: goodput of real runs", name), 100 * real / runs, "%");
  report(fmt::format("{}: simulated goodput", name), 100 * predicted / runs, "%");
  report(fmt::format("{}: simulated less real", name), 100 * (predicted - real) / runs, "points");
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = read_seeded_options(argc, argv, "goodput", 4);
  if (!options) return 2;
  const fs::path folder = make_bench_folder("goodput");
  std::mt19937_64 random(options->seed);
  LossTimes times;
  for (int i = 0; i < 3; ++i) {
    measure_takeover(folder / "takeover", random(), times);
    measure_restart(folder / "restart", random(), times);
  }
  const auto all = undisturbed_seconds(Recovery::takeover, processes, steps / 4, folder / "slow"),
             fewer = undisturbed_seconds(Recovery::takeover, processes - 1, steps / 4, folder / "slow");
  bool pass = all && fewer && !times.takeover.empty() && !times.repair.empty() && !times.restart.empty();
  if (pass) {
    LongRun run;
    run.hosts = processes;
    run.host_rate = 1 / (steps_between_losses * *all / (steps / 4) * processes);
    run.slowdowns = {std::max(1.0, *fewer / *all)};
    run.takeover = pipetrain::schedules::median_of(times.takeover);
    run.restart = pipetrain::schedules::median_of(times.restart);
    report("seconds between two losses", 1 / (run.host_rate * processes), "s");
    report("seconds until a takeover", run.takeover, "s");
    report("seconds until a restart", run.restart, "s");
    report("slowdown with one process fewer", run.slowdowns.front(), "x");
    run.recovery = Recovery::restart;
    pass = compare("restart", run, *options, folder);
    run.recovery = Recovery::takeover;
    run.repair = pipetrain::schedules::median_of(times.repair);
    report("seconds until another process joins", run.repair, "s");
    pass &= compare("takeover", run, *options, folder);
  }
  fs::remove_all(folder);
  return pass ? 0 : 1;
}
