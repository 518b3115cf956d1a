// Kills runs by a seeded kill -9 during training and saving, over one and four processes. Every run must resume,
// possibly in another layout, from the newest checkpoint that was whole when it was killed or a newer one, and learn to
// the bit what an undisturbed run learns.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "bench/faults/marked_processes.hpp"
#include "bench/faults/program_run.hpp"
#include "bench/result.hpp"

namespace {

namespace fs = std::filesystem;
using namespace pipetrain;
using namespace pipetrain::bench;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::chrono::seconds longest_run{300};

struct Layout {
  int processes;
  const char* options;
};
// All layouts have equally many samples a step, so that a run may resume in any of them.
constexpr Layout layouts[] = {{1, "--microbatches 4"},
                              {1, "--pp 2 --microbatches 4"},
                              {1, "--tp 2 --dp 2 --microbatches 2"},
                              {1, "--pp 2 --dp 2 --zero 3 --microbatches 2"},
                              {4, "--pp 4 --microbatches 4"},
                              {4, "--pp 2 --tp 2 --microbatches 4"},
                              {4, "--pp 2 --dp 2 --microbatches 2 --schedule gpipe"},
                              {4, "--dp 4 --zero 1 --microbatches 1"}};

struct Settings {
  int kills = 100, jobs = 1;
  std::uint64_t seed = 1;
};

std::string program() {
  if (const char* given = std::getenv("BENCH_PROGRAM")) return fs::absolute(given);
  return fs::read_symlink("/proc/self/exe").parent_path() / "pipetrain";
}

std::vector<std::string> command(const Layout& layout, const fs::path& save) {
  std::istringstream words(fmt::format(
      "{} {} {} --device cpu --threads 1 --seq-len 8 --layers 4 --steps 20 --save-interval 1 --save-keep 3 --save-keep-every 5 "
      "--log-interval 1000000 --rendezvous-timeout 60 --resume --save {}",
      program(), layout.processes > 1 ? fmt::format("launch --nproc {}", layout.processes) : "", layout.options,
      save.string()));
  return {std::istream_iterator<std::string>(words), {}};
}

std::int64_t newest_step(const fs::path& save) {
  const auto found = find_checkpoints(save);
  return found.empty() ? 0 : checkpoint_step(found.back()).value();
}

// Returns the step from which a run reports that it resumes; 0 if it starts from the beginning.
std::int64_t went_on_from(const std::string& err) {
  const std::string words = "resuming after step ";
  const std::size_t at = err.find(words);
  return at == std::string::npos ? 0 : std::atoll(err.c_str() + at + words.size());
}

std::string weights(const fs::path& save) { return text_of(save / "model" / "model.safetensors"); }

// The results of undisturbed runs, and their durations.
struct Reference {
  std::string weights;
  double seconds = 0;
};

struct Tally {
  std::mutex mutex;
  int kills = 0, while_saving = 0, resumed = 0, lost = 0, runs = 0, equal = 0, elsewhere = 0, elsewhere_resumed = 0;
};

// A run that is killed several times, then left alone.
class Trial {
 public:
  Trial(std::uint64_t seed, const fs::path& folder, const std::vector<Reference>& references, Tally& tally)
      : seed_(seed),
        random_(seed),
        folder_(folder),
        which_(random_() % std::size(layouts)),
        reference_(references[which_]),
        tally_(tally) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Trial() { fs::remove_all(folder_); }

  int run(int most_kills) {
    const int kills = std::min<int>(most_kills, 1 + static_cast<int>(random_() % 3));
    for (int kill = 0; kill < kills; ++kill) disturb();
    if (random_() % 4 == 0) go_on_elsewhere();
    const bool finished = finish(layouts[which_], save_);
    const bool equal = finished && weights(save_) == reference_.weights;
    if (finished && !equal) tell("the weights are not those of the undisturbed run");
    const std::lock_guard lock(tally_.mutex);
    ++tally_.runs;
    tally_.equal += equal;
    return kills;
  }

 private:
  void disturb() {
    const double share = std::uniform_real_distribution<double>(0, 1.1)(random_);
    const bool one_process = layouts[which_].processes > 1 && random_() % 2 == 0;
    const int victim = static_cast<int>(random_() % static_cast<unsigned>(layouts[which_].processes));
    const ProcessMark mark;
    ProgramRun run(command(layouts[which_], save_), {mark.variable()}, folder_ / "err");
    std::this_thread::sleep_for(Seconds(share * reference_.seconds));
    bool saving = false;
    const std::int64_t committed = newest_step(save_);
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(save_, ignored)) saving |= entry.path().extension() == ".partial";
    if (one_process) {
      mark.signal(victim, SIGKILL);
      if (!run.wait(longest_run)) tell("the rest of the run did not end after one of its processes was killed");
    }
    mark.kill_all();
    run.wait(std::chrono::seconds(10));
    if (!mark.all_gone()) tell("processes are left");
    check_going_on(run.err());
    committed_ = std::max(committed_, committed);
    const std::lock_guard lock(tally_.mutex);
    ++tally_.kills;
    tally_.while_saving += saving;
  }

  // Checks a run that resumed after a kill; it may have been killed itself before it said so.
  void check_going_on(const std::string& err) {
    if (err.find("pipetrain: error: ") != std::string::npos && err.find("SIGKILL") == std::string::npos &&
        err.find("resuming after") == std::string::npos && err.find("starting afresh") == std::string::npos)
      tell(err);
    if (err.find("resuming after") == std::string::npos && err.find("starting afresh") == std::string::npos) return;
    if (went_on_from(err) >= committed_) return;
    tell(fmt::format("step {} was whole, and the run went on from {}", committed_, went_on_from(err)));
    const std::lock_guard lock(tally_.mutex);
    ++tally_.lost;
  }

  void go_on_elsewhere() {
    const Layout& other = layouts[(which_ + 1 + random_() % (std::size(layouts) - 1)) % std::size(layouts)];
    const fs::path copy = folder_ / "elsewhere";
    if (!fs::exists(save_)) return;
    fs::copy(save_, copy, fs::copy_options::recursive);
    const bool finished = finish(other, copy);
    const std::lock_guard lock(tally_.mutex);
    ++tally_.elsewhere;
    tally_.elsewhere_resumed += finished;
  }

  bool finish(const Layout& layout, const fs::path& save) {
    ProgramRun run(command(layout, save), {}, folder_ / "err");
    const auto status = run.wait(longest_run);
    const std::string err = run.err();
    check_going_on(err);
    const bool finished = status == 0 && !weights(save).empty();
    if (!finished)
      tell(status ? fmt::format("{}: status {}, a model of {} bytes: {}", layout.options, *status, weights(save).size(), err)
                  : fmt::format("{}: it hangs", layout.options));
    const std::lock_guard lock(tally_.mutex);
    if (save == save_) tally_.resumed += finished;
    return finished;
  }

  void tell(const std::string& what) const { fmt::print(stderr, "seed {} ({}): {}\n", seed_, layouts[which_].options, what); }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  fs::path folder_, save_ = folder_ / "run";
  std::size_t which_;
  const Reference& reference_;
  Tally& tally_;
  std::int64_t committed_ = 0;  // the newest whole checkpoint at the last kill
};

// Returns nothing if an undisturbed run fails.
std::vector<Reference> undisturbed(const fs::path& folder) {
  std::vector<Reference> references;
  for (const Layout& layout : layouts) {
    const fs::path save = folder / "undisturbed";
    fs::remove_all(save);
    const auto start = Clock::now();
    ProgramRun run(command(layout, save), {}, folder / "err");
    if (run.wait(longest_run) != 0) {
      fmt::print(stderr, "kill: an undisturbed run fails: {}: {}\n", layout.options, run.err());
      return {};
    }
    references.push_back({weights(save), Seconds(Clock::now() - start).count()});
  }
  return references;
}

bool report_all(const Tally& tally, const Settings& settings) {
  const auto share = [](int part, int all) { return all > 0 ? static_cast<double>(part) / all : 0; };
  bool pass = report("kill kills", tally.kills, "kills", Limit::at_least, settings.kills);
  report("kill while saving", tally.while_saving, "kills");
  pass &= report("kill runs that go on to their end", share(tally.resumed, tally.runs), "share", Limit::at_least, 1);
  pass &= report("kill committed steps lost", tally.lost, "steps", Limit::at_most, 0);
  pass &= report("kill weights equal to the undisturbed run's", share(tally.equal, tally.runs), "share", Limit::at_least, 1);
  report("kill runs gone on with in another layout", tally.elsewhere, "runs");
  if (tally.elsewhere > 0)
    pass &= report("kill of these, to their end", share(tally.elsewhere_resumed, tally.elsewhere), "share", Limit::at_least, 1);
  return pass;
}

bool kill_runs(const Settings& settings) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("pipetrain-kill-{}", ::getpid());
  fs::create_directories(folder);
  Tally tally;
  const std::vector<Reference> references = undisturbed(folder);
  std::atomic<int> left{references.empty() ? 0 : settings.kills}, next{0};
  const auto work = [&](int job) {
    while (left > 0) {
      Trial trial(settings.seed + static_cast<std::uint64_t>(next++), folder / std::to_string(job), references, tally);
      left -= trial.run(3);
    }
  };
  std::vector<std::thread> jobs;
  for (int job = 0; job < settings.jobs; ++job) jobs.emplace_back(work, job);
  for (auto& job : jobs) job.join();
  fs::remove_all(folder);
  return report_all(tally, settings);
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; i += 2) {
    const char* text = i + 1 < argc ? argv[i + 1] : "";
    const char* end = text + std::strlen(text);
    const auto read = [&](const char* name, auto& number) {
      return std::strcmp(argv[i], name) == 0 && end != text && std::from_chars(text, end, number).ptr == end && number > 0;
    };
    if (read("--runs", settings.kills) || read("--jobs", settings.jobs) || read("--seed", settings.seed)) continue;
    fmt::print(stderr, "kill: {}: give --runs N, kills in all [100], --jobs N at a time [1], --seed N [1]\n", argv[i]);
    return 2;
  }
  return kill_runs(settings) ? 0 : 1;
}
