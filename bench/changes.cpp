// Changes elastic runs by seeded sequences of joins, leaves, re-layouts and deaths over one to eight processes. Every run must
// end with the metrics and weights of the undisturbed one, to the bit.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "bench/faults/seeded_changes.hpp"
#include "bench/result.hpp"

namespace {

namespace fs = std::filesystem;
using namespace pipetrain::bench;

fs::path program() {
  if (const char* given = std::getenv("BENCH_PROGRAM")) return fs::absolute(given);
  return fs::read_symlink("/proc/self/exe").parent_path() / "pipetrain";
}

}  // namespace

int main(int argc, char** argv) {
  int runs = 300;
  std::uint64_t seed = 1;
  for (int i = 1; i < argc; i += 2) {
    const char* text = i + 1 < argc ? argv[i + 1] : "";
    const char* end = text + std::strlen(text);
    const auto read = [&](const char* name, auto& number) {
      return std::strcmp(argv[i], name) == 0 && end != text && std::from_chars(text, end, number).ptr == end && number > 0;
    };
    if (read("--runs", runs) || read("--seed", seed)) continue;
    fmt::print(stderr, "changes: {}: give --runs N [300], --seed N [1]\n", argv[i]);
    return 2;
  }
  const fs::path folder = fs::temp_directory_path() / fmt::format("pipetrain-changes-{}", ::getpid());
  fs::create_directories(folder);
  SeededChanges changes(program(), folder);
  int equal = 0, joined = 0, left = 0, relaid = 0, lost = 0, started_again = 0;
  for (int run = 0; run < runs; ++run) {
    const ChangesOutcome outcome = changes.run(seed + static_cast<std::uint64_t>(run));
    equal += outcome.problem.empty() ? 1 : 0;
    joined += outcome.joined, left += outcome.left, relaid += outcome.relaid, lost += outcome.lost;
    started_again += outcome.started_again ? 1 : 0;
    if (!outcome.problem.empty()) fmt::print(stderr, "{}: {}\n", outcome.what, outcome.problem);
  }
  fs::remove_all(folder);
  bool pass = report("changed runs", runs, "runs");
  pass &= report("changed runs equal to the undisturbed one", equal, "runs", Limit::at_least, runs);
  report("memberships that began because processes joined", joined, "memberships");
  report("processes that left on purpose", left, "processes");
  report("changes of the layout", relaid, "changes");
  report("memberships that began because processes were lost", lost, "memberships");
  report("changed runs that were started again", started_again, "runs");
  return pass ? 0 : 1;
}
