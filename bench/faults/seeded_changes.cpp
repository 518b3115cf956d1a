#include "bench/faults/seeded_changes.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <random>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "bench/faults/marked_processes.hpp"
#include "bench/faults/program_run.hpp"

namespace pipetrain::bench {
namespace {

namespace fs = std::filesystem;
using Random = std::mt19937_64;

constexpr std::chrono::seconds longest_changed_run{240};
constexpr int changed_steps = 80, most_processes = 8;

// Layouts between which all sums keep their order.
struct Family {
  int processes;          // at first
  const char* options;    // of all of them
  const char* first;      // the layout at first
  const char* others[4];  // of relayout
};
constexpr Family families[] = {
    {2,
     "--microbatches 4",
     "--pp 2",
     {"--pp 4 --schedule zb-h1", "--pp 2 --schedule zb-v", "--pp 1 --schedule 1f1b", "--cut 1,3"}},
    {3,
     "--microbatches 4",
     "--pp 4",
     {"--pp 2 --schedule 1f1b", "--schedule zb-h1", "--pp 3 --schedule 1f1b", "--recompute full"}},
    {2, "--dp 2 --microbatches 2", "--pp 1", {"--pp 2", "--zero 1", "--pp 2 --zero 3", "--pp 4 --zero 2"}},
    {4, "--dp 2 --microbatches 2", "--pp 2 --zero 1", {"--pp 1 --zero 0", "--pp 4", "--zero 3", "--pp 2 --schedule zb-h1"}},
    {2,
     "--tp 2 --microbatches 2",
     "--pp 1",
     {"--pp 2", "--pp 2 --schedule zb-h1", "--pp 4 --schedule 1f1b", "--pp 1 --schedule 1f1b"}}};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

std::string common(const Family& family, const fs::path& folder) {
  return fmt::format(
      "{} {} --device cpu --threads 1 --seq-len 8 --layers 4 --steps {} --log-interval 1000000 --save {} --metrics {}",
      family.first, family.options, changed_steps, (folder / "run").string(), (folder / "metrics").string());
}

// Returns the numbers of the run's processes that are alive.
std::vector<int> alive(const ProcessMark& mark) {
  std::vector<int> numbers;
  for (const MarkedProcess& process : mark.launched()) numbers.push_back(process.number);
  return numbers;
}

// Changes one live run.
class Changes {
 public:
  Changes(const fs::path& program, const Family& family, const fs::path& folder, const ProcessMark& mark, Random& random)
      : program_(program), family_(family), folder_(folder), mark_(mark), random_(random) {}

  // Makes one change, and returns its name. Every second one is disturbed by the loss of a process.
  std::string change() {
    const std::vector<int> numbers = alive(mark_);
    const auto processes = static_cast<int>(numbers.size());
    const bool loses = draw(2) == 0 && processes > 2;
    std::string name;
    switch (draw(4)) {
      case 0:
        name = ask(fmt::format("--nproc {}", std::min(processes + 1 + draw(2), most_processes)));
        break;
      case 1:
        if (processes > 2) name = leave(numbers);
        break;
      case 2:
        name = ask(family_.others[draw(4)]);
        break;
      default:
        if (processes > 1) name = kill(numbers);
    }
    if (loses && name.find("kill") == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(draw(250)));
      name += " and " + kill(alive(mark_));
    }
    return name;
  }

 private:
  int draw(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  std::string ask(const std::string& options) {
    asking_.push_back(std::make_unique<ProgramRun>(
        words_of(fmt::format("{} relayout {} {} --timeout 60", program_.string(), (folder_ / "run").string(), options)),
        std::vector<std::string>{}, folder_ / fmt::format("ask-{}", asking_.size())));
    if (draw(2) == 0) asking_.back()->wait(std::chrono::seconds(20));
    return options;
  }
  std::string leave(const std::vector<int>& numbers) {
    const int number = numbers[static_cast<std::size_t>(draw(static_cast<int>(numbers.size())))];
    mark_.signal(number, SIGUSR2);
    return fmt::format("leave {}", number);
  }
  std::string kill(const std::vector<int>& numbers) {
    if (numbers.size() < 2) return "nothing";
    const int number = numbers[static_cast<std::size_t>(draw(static_cast<int>(numbers.size())))];
    mark_.signal(number, SIGKILL);
    return fmt::format("kill {}", number);
  }

  const fs::path& program_;
  const Family& family_;
  const fs::path& folder_;
  const ProcessMark& mark_;
  Random& random_;
  std::vector<std::unique_ptr<ProgramRun>> asking_;
};

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

SeededChanges::SeededChanges(fs::path program, fs::path folder) : program_(std::move(program)), folder_(std::move(folder)) {}

const RunResults& SeededChanges::undisturbed(std::size_t layout) {
  return undisturbed_.of(layout, [&] {
    const fs::path folder = folder_ / fmt::format("unchanged-{}", layout);
    fs::create_directories(folder);
    ProgramRun run(words_of(program_.string() + " train " + common(families[layout], folder)), {}, folder / "err");
    const RunResults results = run.wait(longest_changed_run) == 0 ? results_in(folder) : RunResults{};
    fs::remove_all(folder);
    return results;
  });
}

ChangesOutcome SeededChanges::run(std::uint64_t seed) {
  Random random(seed);
  const std::size_t which = random() % std::size(families);
  const Family& family = families[which];
  const RunResults& expected = undisturbed(which);
  const fs::path folder = folder_ / fmt::format("changed-{}", seed);
  fs::remove_all(folder);
  fs::create_directories(folder);
  const ProcessMark mark;
  const auto command = words_of(
      fmt::format("{} launch --nproc {} --elastic takeover --restart-processes 2 --restart 4 --save-interval 10 --resume {}",
                  program_.string(), family.processes, common(family, folder)));
  ProgramRun run(command, {mark.variable()}, folder / "err");
  Changes changes(program_, family, folder, mark, random);
  std::string made;
  for (int at = 5; at < changed_steps - 15; at += 8 + static_cast<int>(random() % 12)) {
    if (!wait_for_lines(run, folder / "metrics", at)) break;
    made += (made.empty() ? "" : ", ") + fmt::format("after {}: {}", at, changes.change());
  }
  auto status = run.wait(longest_changed_run);
  mark.kill_all();
  std::string err = run.err();
  // A process that was asked to leave when no other had joined yet saves the run and ends it; whoever asked goes on with it.
  if (status == 128 + SIGUSR2) {
    ProgramRun again(command, {mark.variable()}, folder / "again");
    status = again.wait(longest_changed_run);
    mark.kill_all();
    err += again.err();
  }
  ChangesOutcome outcome{.what = fmt::format("seed {} ({} {}; {})", seed, family.first, family.options, made)};
  outcome.joined = count_of(err, "joined: ");
  outcome.left = count_of(err, "handed over: ");
  outcome.relaid = count_of(err, "relayout: after step");
  outcome.lost = count_of(err, "takeover: ") + count_of(err, "a process was lost while");
  outcome.started_again = err.find("starts again from its last checkpoint") != std::string::npos ||
                          err.find("stopped by SIGUSR2") != std::string::npos;
  outcome.problem = problem_of(status, folder, expected, err);
  fs::remove_all(folder);
  return outcome;
}

}  // namespace pipetrain::bench
