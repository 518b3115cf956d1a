#include "bench/faults/seeded_takeover.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "bench/faults/begun_steps.hpp"
#include "bench/faults/dropped_links.hpp"
#include "bench/faults/marked_processes.hpp"
#include "bench/faults/program_run.hpp"

namespace pipetrain::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Random = std::mt19937_64;

constexpr std::chrono::seconds longest_run{240};
constexpr int usual_steps = 40;
constexpr int steps_with_newcomer = 600;  // so that a process which is started anew joins the run before its end

struct Layout {
  int processes;
  const char* options;
  int spares = 0;
};
constexpr Layout layouts[] = {{2, "--dp 2 --microbatches 2"},          {2, "--pp 2 --microbatches 4"},
                              {2, "--tp 2 --microbatches 2"},          {2, "--dp 2 --zero 3 --microbatches 2"},
                              {3, "--pp 4 --microbatches 4"},          {3, "--dp 3 --microbatches 2"},
                              {4, "--pp 2 --dp 2 --microbatches 2"},   {4, "--pp 2 --tp 2 --microbatches 4 --schedule zb-v"},
                              {4, "--pp 2 --microbatches 4", 2},       {3, "--dp 2 --microbatches 2", 1},
                              {4, "--dp 4 --zero 1 --microbatches 1"}, {8, "--pp 2 --tp 2 --dp 2 --zero 2 --microbatches 2"}};

// The beginning of the command of a run that is disturbed. replaces: launch starts another process for a lost one.
std::string elastic_launch(const Layout& layout, bool replaces) {
  return fmt::format(
      "launch --nproc {} --rendezvous-timeout 60 --elastic takeover --spares {} --restart 3 --save-interval {} --resume{}",
      layout.processes, layout.spares, replaces ? 200 : 10, replaces ? " --restart-processes 1" : "");
}

std::vector<std::string> command(const fs::path& program, const std::string& begin, const Layout& layout, int steps,
                                 const fs::path& folder) {
  std::istringstream words(fmt::format(
      "{} {} {} --device cpu --threads 1 --seq-len 8 --layers 4 --steps {} --log-interval 1000000 --save {} --metrics {}",
      program.string(), begin, layout.options, steps, (folder / "run").string(), (folder / "metrics").string()));
  return {std::istream_iterator<std::string>(words), {}};
}

// True for a third of the runs that lose a process for good.
bool replaces_lost(std::uint64_t seed) {
  const auto fault = static_cast<TakeoverFault>(seed % takeover_faults);
  const bool ends = fault == TakeoverFault::kill || fault == TakeoverFault::exit || fault == TakeoverFault::coordinator;
  return ends && seed / takeover_faults % 3 == 2;
}

// One disturbance: its kind, its step and its processes.
class Disturbance {
 public:
  Disturbance(TakeoverFault fault, const Layout& layout, Random& random)
      : fault_(fault), step_(1 + static_cast<int>(random() % (usual_steps * 3 / 4))), in_update_(random() % 2 == 0) {
    // There are at least as many ranks as processes that are not spare.
    const int victims = layout.processes - (fault == TakeoverFault::exit ? layout.spares : 0);
    victim_ = fault == TakeoverFault::coordinator ? 0 : 1 + static_cast<int>(random() % static_cast<unsigned>(victims - 1));
    other_ = static_cast<int>(random() % static_cast<unsigned>(layout.processes));
    delay_ = std::chrono::microseconds(random() % 20000);
  }

  int step() const { return step_; }
  // Returns the variable with which a process disturbs the run by itself; empty for other faults.
  std::string variable() const {
    if (fault_ != TakeoverFault::exit) return "";
    return fmt::format("PIPETRAIN_FAULT={}:{}:{}", victim_, step_ + 1, in_update_ ? "exit-in-update" : "exit");
  }
  // Disturbs a run that has written as many lines as step() says.
  void disturb(const ProcessMark& mark) const {
    std::this_thread::sleep_for(delay_);
    if (fault_ == TakeoverFault::link) {
      for (const pid_t process : mark.processes(victim_)) drop_links(process);
    } else if (fault_ != TakeoverFault::exit) {
      mark.signal(victim_, fault_ == TakeoverFault::stop ? SIGSTOP : SIGKILL);
      if (fault_ == TakeoverFault::two && other_ != victim_) mark.signal(other_, SIGKILL);
    }
  }

 private:
  TakeoverFault fault_;
  int step_;
  bool in_update_;
  int victim_ = 0, other_ = 0;
  std::chrono::microseconds delay_{};
};

}  // namespace

const char* name_of(TakeoverFault fault) {
  constexpr const char* names[takeover_faults] = {"kill", "stop", "link", "exit", "coordinator", "two"};
  return names[static_cast<int>(fault)];
}

SeededTakeovers::SeededTakeovers(fs::path program, fs::path folder)
    : program_(std::move(program)), folder_(std::move(folder)) {}

const RunResults& SeededTakeovers::undisturbed(std::size_t layout, int steps) {
  return undisturbed_.of({layout, steps}, [&] {
    const fs::path folder = folder_ / fmt::format("undisturbed-{}-{}", layout, steps);
    fs::create_directories(folder);
    ProgramRun run(command(program_, "train", layouts[layout], steps, folder), {}, folder / "err");
    const RunResults results = run.wait(longest_run) == 0 ? results_in(folder) : RunResults{};
    fs::remove_all(folder);
    return results;
  });
}

TakeoverOutcome SeededTakeovers::run(std::uint64_t seed) {
  Random random(seed);
  const std::size_t which = random() % std::size(layouts);
  const Layout& layout = layouts[which];
  const bool replaces = replaces_lost(seed);
  const int steps = replaces ? steps_with_newcomer : usual_steps;
  TakeoverOutcome outcome;
  outcome.fault = static_cast<TakeoverFault>(seed % takeover_faults);
  outcome.what = fmt::format("seed {} ({} in {} processes with {} spare, {}{})", seed, layout.options, layout.processes,
                             layout.spares, name_of(outcome.fault), replaces ? ", replaced" : "");
  const RunResults& expected = undisturbed(which, steps);
  if (expected.steps.empty()) {
    outcome.problem = "the undisturbed run, in one process, has failed";
    return outcome;
  }
  const fs::path folder = folder_ / fmt::format("run-{}", seed), metrics = folder / "metrics";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const Disturbance disturbance(outcome.fault, layout, random);
  const ProcessMark mark;
  std::vector<std::string> variables{mark.variable()};
  if (const std::string fault = disturbance.variable(); !fault.empty()) variables.push_back(fault);
  ProgramRun run(command(program_, elastic_launch(layout, replaces), layout, steps, folder), variables, folder / "err");
  if (wait_for_lines(run, metrics, disturbance.step())) {
    disturbance.disturb(mark);
    const auto begin = Clock::now();
    const auto taken = wait_for_step_after(1, metrics, run, begin);
    if (taken) outcome.seconds = taken->seconds;
    const auto joined = taken && replaces ? wait_for_step_after(taken->membership, metrics, run, begin) : std::nullopt;
    if (joined) outcome.seconds_until_joined = joined->seconds;
  }
  const auto status = run.wait(longest_run);
  mark.kill_all();
  const std::string err = run.err();
  outcome.took_over = err.find("takeover: ") != std::string::npos;
  outcome.started_again = err.find("starts again from its last checkpoint") != std::string::npos;
  outcome.problem = problem_of(status, folder, expected, err);
  fs::remove_all(folder);
  return outcome;
}

}  // namespace pipetrain::bench
