// Changes elastic runs by seeded sequences of joins, leaves, re-layouts and deaths over one to eight processes. Every run must
// end with the metrics and weights of the undisturbed one, to the bit.
#include <fmt/format.h>

#include <filesystem>

#include "bench/faults/seeded_bench.hpp"
#include "bench/faults/seeded_changes.hpp"
#include "bench/result.hpp"

namespace {

namespace fs = std::filesystem;
using namespace pipetrain::bench;

struct Tally {
  int runs = 0, equal = 0, joined = 0, left = 0, relaid = 0, lost = 0, started_again = 0;
};

void add(const ChangesOutcome& outcome, Tally& tally) {
  ++tally.runs;
  tally.equal += outcome.problem.empty() ? 1 : 0;
  tally.joined += outcome.joined, tally.left += outcome.left, tally.relaid += outcome.relaid, tally.lost += outcome.lost;
  tally.started_again += outcome.started_again ? 1 : 0;
  fmt::print(stderr, "{}: {}\n", outcome.what, outcome.problem.empty() ? "equal" : outcome.problem);
}

bool report_all(const Tally& tally) {
  report("changed runs", tally.runs, "runs");
  const bool pass = report("changed runs equal to the undisturbed one", tally.equal, "runs", Limit::at_least, tally.runs);
  report("memberships that began because processes joined", tally.joined, "memberships");
  report("processes that left on purpose", tally.left, "processes");
  report("changes of the layout", tally.relaid, "changes");
  report("memberships that began because processes were lost", tally.lost, "memberships");
  report("changed runs that were started again", tally.started_again, "runs");
  return pass;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = read_seeded_options(argc, argv, "changes", 300);
  if (!options) return 2;
  const fs::path folder = make_bench_folder("changes");
  SeededChanges changes(measured_program(), folder);
  Tally tally;
  add_each_outcome(
      *options, [&](std::uint64_t seed) { return changes.run(seed); },
      [&](const ChangesOutcome& outcome) { add(outcome, tally); });
  fs::remove_all(folder);
  return report_all(tally) ? 0 : 1;
}
