// Changes elastic runs by seeded sequences of joins, leaves, re-layouts and deaths over one to eight processes. Every run must
// end with the metrics and weights of the undisturbed one, to the bit.
#include <fmt/format.h>

#include <filesystem>

#include "bench/faults/seeded_bench.hpp"
#include "bench/faults/seeded_changes.hpp"
#include "bench/result.hpp"

namespace fs = std::filesystem;
using namespace pipetrain::bench;

int main(int argc, char** argv) {
  const auto options = read_seeded_options(argc, argv, "changes", 300);
  if (!options) return 2;
  const fs::path folder = make_bench_folder("changes");
  SeededChanges changes(measured_program(), folder);
  int equal = 0, joined = 0, left = 0, relaid = 0, lost = 0, started_again = 0;
  for (int run = 0; run < options->runs; ++run) {
    const ChangesOutcome outcome = changes.run(options->seed + static_cast<std::uint64_t>(run));
    equal += outcome.problem.empty() ? 1 : 0;
    joined += outcome.joined, left += outcome.left, relaid += outcome.relaid, lost += outcome.lost;
    started_again += outcome.started_again ? 1 : 0;
    if (!outcome.problem.empty()) fmt::print(stderr, "{}: {}\n", outcome.what, outcome.problem);
  }
  fs::remove_all(folder);
  bool pass = report("changed runs", options->runs, "runs");
  pass &= report("changed runs equal to the undisturbed one", equal, "runs", Limit::at_least, options->runs);
  report("memberships that began because processes joined", joined, "memberships");
  report("processes that left on purpose", left, "processes");
  report("changes of the layout", relaid, "changes");
  report("memberships that began because processes were lost", lost, "memberships");
  report("changed runs that were started again", started_again, "runs");
  return pass ? 0 : 1;
}
