#include "bench/faults/processes.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "bench/faults/hosts.hpp"
#include "bench/faults/marked_processes.hpp"
#include "bench/faults/program_run.hpp"
#include "bench/faults/seeded_fault.hpp"
#include "bench/result.hpp"

namespace pipetrain::bench {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

constexpr std::chrono::seconds longest_run{120};
constexpr int most_processes = 8;

std::string program() {
  if (const char* given = std::getenv("BENCH_PROGRAM")) return fs::absolute(given);
  return fs::read_symlink("/proc/self/exe").parent_path() / "pipetrain";
}

Words words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

std::string training(const SeededFault& fault, const fs::path& folder) {
  return fmt::format(
      "{} --device cpu --threads 1 --seq-len 8 --layers 4 --microbatches 4 --steps 40 --save-interval 5 --save-keep 2 "
      "--log-interval 1000000 --stall-timeout 2 --rendezvous-timeout 40 --save {}",
      fault.layout(), (folder / "run").string());
}

std::string learned(const fs::path& folder) { return text_of(folder / "run" / "model" / "model.safetensors"); }

std::size_t lines_of(const fs::path& file) {
  const std::string text = text_of(file);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

// Returns the line that says why a run ended or started again; empty if there is none, or more than one.
std::string cause_line(const std::string& err) {
  std::istringstream lines(err);
  std::string cause;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("pipetrain: error: ") && line.find("; the run starts again") == std::string::npos) continue;
    if (!cause.empty()) return "";
    cause = line;
  }
  return cause;
}

// The results of undisturbed runs, by layout.
class Undisturbed {
 public:
  explicit Undisturbed(fs::path folder) : folder_(std::move(folder)) {}
  const std::string& weights(const SeededFault& fault) {
    std::string& known = weights_[fault.layout()];
    if (!known.empty()) return known;
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    Words words = words_of(training(fault, folder_));
    words.insert(words.begin(), program());
    ProgramRun run(words, {}, folder_ / "err");
    if (run.wait(longest_run) == 0) known = learned(folder_);
    return known;
  }

 private:
  fs::path folder_;
  std::map<std::string, std::string> weights_;
};

struct Outcome {
  bool ended = false, named = false, alone = false;
  bool learned = true;            // true when the run learned as it should, if it started again
  std::optional<double> noticed;  // seconds from an external fault to the first message about it
};

// A run with a fault, in a folder of its own.
class FaultRun {
 public:
  FaultRun(const SeededFault& fault, const fs::path& folder, const Hosts& hosts)
      : fault_(fault), folder_(folder), hosts_(hosts) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~FaultRun() {
    mark_.kill_all();
    runs_.clear();
    if (fault_.kind == Fault::disk) succeeds("umount -l " + (folder_ / "run").string());
    if (fault_.kind == Fault::link) hosts_.link(fault_.process, true);
  }
  FaultRun(const FaultRun&) = delete;
  FaultRun& operator=(const FaultRun&) = delete;

  Outcome run(const std::string& undisturbed) {
    if (fault_.kind == Fault::disk) fill_disk();
    fault_.kind == Fault::link ? start_on_hosts() : start();
    Outcome outcome;
    disturb(outcome);
    outcome.ended = wait();
    const ProgramRun& witness = *runs_[fault_.kind == Fault::link && fault_.process == 0 ? 1 : 0];
    outcome.named = fault_.is_named_in(cause_line(witness.err()));
    outcome.alone = mark_.all_gone();
    if (fault_.restart) outcome.learned = outcome.ended && !undisturbed.empty() && learned(folder_) == undisturbed;
    if (!outcome.ended || !outcome.named || !outcome.alone || !outcome.learned) tell(outcome, witness.err());
    return outcome;
  }

 private:
  void add(const std::string& command) {
    Words variables = {mark_.variable(), "PIPETRAIN_TOKEN=of-the-bench"};
    if (!fault_.variable().empty()) variables.push_back(fault_.variable());
    runs_.push_back(std::make_unique<ProgramRun>(words_of(command), variables, folder_ / fmt::format("err{}", runs_.size())));
  }
  std::string options() const {
    return training(fault_, folder_) + fmt::format(" --restart {} --metrics {}", fault_.restart ? 3 : 0, metrics().string());
  }
  void start() { add(fmt::format("{} launch --nproc {} {}", program(), fault_.processes, options())); }
  void start_on_hosts() {
    for (int host = 0; host < fault_.processes; ++host)
      add(fmt::format("ip netns exec {} {} launch --nproc 1 --nnodes {} --node-rank {} --master {}:29500 {}", hosts_.name(host),
                      program(), fault_.processes, host, hosts_.address(0), options()));
  }
  fs::path metrics() const { return folder_ / "metrics.jsonl"; }
  fs::path filler() const { return folder_ / "run" / ".filler"; }

  // Leaves room for some of the run's checkpoints, but not for all: each takes 10 MB, and there are three while one is
  // written.
  void fill_disk() const {
    const fs::path disk = folder_ / "run";
    fs::create_directories(disk);
    succeeds(fmt::format("mount -t tmpfs -o size=64m none {}", disk.string()));
    succeeds(fmt::format("head -c {}M /dev/zero > {}", 64 - 4 - 2 * fault_.step, filler().string()));
  }

  bool any_running() {
    return std::any_of(runs_.begin(), runs_.end(), [](const auto& run) { return run->running(); });
  }
  // Returns false if the run ends first.
  bool reaches_step() {
    while (any_running()) {
      if (lines_of(metrics()) >= static_cast<std::size_t>(fault_.step)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }
  std::size_t words_said() const {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < runs_.size(); ++i) bytes += runs_[i]->err().size();
    return bytes;
  }

  // Applies an external fault.
  void disturb(Outcome& outcome) {
    const bool outside = fault_.kind == Fault::kill || fault_.kind == Fault::stop || fault_.kind == Fault::link;
    if (!outside || !reaches_step()) return;
    const std::size_t before = words_said();
    const auto start = Clock::now();
    if (fault_.kind == Fault::link) {
      hosts_.link(fault_.process, false);
    } else {
      mark_.signal(fault_.process, fault_.kind == Fault::kill ? SIGKILL : SIGSTOP);
    }
    while (words_said() == before && any_running()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    outcome.noticed = std::chrono::duration<double>(Clock::now() - start).count();
  }

  // Removes the obstacle to a restart.
  void repair() {
    const bool again = std::any_of(runs_.begin(), runs_.end(),
                                   [](const auto& run) { return run->err().find("starts again") != std::string::npos; });
    if (!again || !fault_.restart) return;
    if (fault_.kind == Fault::disk) fs::remove(filler());
    if (fault_.kind == Fault::link) hosts_.link(fault_.process, true);
  }
  bool wait() {
    for (const auto until = Clock::now() + longest_run; any_running() && Clock::now() < until;) {
      repair();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    const int expected = fault_.restart ? 0 : 1;
    return std::all_of(runs_.begin(), runs_.end(),
                       [&](const auto& run) { return run->wait(std::chrono::milliseconds(0)) == expected; });
  }

  void tell(const Outcome& outcome, const std::string& err) const {
    fmt::print(stderr, "{} in process {} (rank {}) of {}, step {}, {}{}: ended {}, named {}, alone {}, learned {}\n{}\n",
               to_string(fault_.kind), fault_.process, fault_.rank, fault_.processes, fault_.step, fault_.layout(),
               fault_.restart ? " --restart" : "", outcome.ended, outcome.named, outcome.alone, outcome.learned, err);
  }

  SeededFault fault_;
  fs::path folder_;
  const Hosts& hosts_;
  ProcessMark mark_;
  std::vector<std::unique_ptr<ProgramRun>> runs_;
};

// Returns the seconds within which an external fault must be noticed.
std::optional<double> limit_of(Fault kind) {
  if (kind == Fault::kill) return 1;
  if (kind == Fault::stop) return 3;
  if (kind == Fault::link) return 5;
  return std::nullopt;
}

bool faults_of_kind(Fault kind, int runs, const fs::path& folder, const Hosts& hosts, Undisturbed& undisturbed) {
  int named = 0, ended = 0, left = 0, again = 0, learned_same = 0;
  double slowest = 0;
  for (unsigned seed = 1; seed <= static_cast<unsigned>(runs); ++seed) {
    const SeededFault fault = seeded_fault(kind, seed);
    const Outcome outcome = FaultRun(fault, folder / "run", hosts).run(fault.restart ? undisturbed.weights(fault) : "");
    ended += outcome.ended;
    named += outcome.named;
    left += !outcome.alone;
    again += fault.restart;
    learned_same += fault.restart && outcome.learned;
    slowest = std::max(slowest, outcome.noticed.value_or(0));
  }
  const std::string title = fmt::format("faults of processes, {}", to_string(kind)), unit = fmt::format("runs of {}", runs);
  bool all = report(title + ": rank and cause named", named, unit, Limit::at_least, runs);
  all &= report(title + ": ended as they should", ended, unit, Limit::at_least, runs);
  all &= report(title + ": left processes", left, unit, Limit::at_most, 0);
  all &= report(title + ": restarted, same weights", learned_same, fmt::format("runs of {}", again), Limit::at_least, again);
  if (const auto limit = limit_of(kind)) all &= report(title + ": noticed after", slowest, "s", Limit::at_most, *limit);
  return all;
}

}  // namespace

bool faults_of_processes(int runs, const std::vector<Fault>& kinds) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("pipetrain-faults-{}", ::getpid());
  fs::create_directories(folder);
  const Hosts hosts(most_processes);
  Undisturbed undisturbed(folder / "undisturbed");
  bool all = true;
  for (const Fault kind : kinds) {
    if (!hosts.made() && (kind == Fault::link || kind == Fault::disk)) {
      fmt::print(stderr, "faults of processes, {}: not tried, which needs root (ip netns, mount)\n", to_string(kind));
      all = false;
      continue;
    }
    all &= faults_of_kind(kind, runs, folder, hosts, undisturbed);
  }
  fs::remove_all(folder);
  return all;
}

}  // namespace pipetrain::bench
