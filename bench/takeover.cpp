// Disturbs elastic runs by seeded faults of six kinds, over two to eight processes. Every run must end with the metrics and
// weights of the undisturbed one, to the bit.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/faults/seeded_bench.hpp"
#include "bench/faults/seeded_takeover.hpp"
#include "bench/result.hpp"

namespace {

namespace fs = std::filesystem;
using namespace pipetrain::bench;

struct Tally {
  int runs = 0, equal = 0, took_over = 0, started_again = 0;
  std::map<TakeoverFault, std::vector<double>> seconds;  // of takeovers
  std::vector<double> seconds_until_joined;
};

// Returns a line with the end of one run, for those who look for the seed of a failure or of a long time.
std::string line_of(const TakeoverOutcome& outcome) {
  if (!outcome.problem.empty()) return fmt::format("{}: {}", outcome.what, outcome.problem);
  if (outcome.started_again) return outcome.what + ": started again, equal";
  if (!outcome.took_over) return outcome.what + ": the fault came too late";
  std::string line = outcome.what + ": equal";
  if (outcome.seconds) line += fmt::format(", taken over after {:.2f} s", *outcome.seconds);
  if (outcome.seconds_until_joined) line += fmt::format(", joined after {:.2f} s", *outcome.seconds_until_joined);
  return line;
}

void add(const TakeoverOutcome& outcome, Tally& tally) {
  ++tally.runs;
  tally.equal += outcome.problem.empty();
  tally.took_over += outcome.took_over;
  tally.started_again += outcome.started_again;
  if (!outcome.started_again && outcome.seconds) tally.seconds[outcome.fault].push_back(*outcome.seconds);
  if (!outcome.started_again && outcome.seconds_until_joined)
    tally.seconds_until_joined.push_back(*outcome.seconds_until_joined);
  fmt::print(stderr, "{}\n", line_of(outcome));
}

// Reports how many seconds were measured, their median and the longest.
bool report_seconds(const std::string& name, std::vector<double>& seconds, std::optional<double> limit) {
  if (seconds.empty()) return true;
  std::sort(seconds.begin(), seconds.end());
  report(name + " measured", static_cast<double>(seconds.size()), "runs");
  report(name + " median", seconds[seconds.size() / 2], "s");
  const std::string longest = name + " longest";
  return limit ? report(longest, seconds.back(), "s", Limit::at_most, *limit) : report(longest, seconds.back(), "s");
}

bool report_all(Tally& tally) {
  bool pass = report("takeover runs", tally.runs, "runs");
  pass &= report("takeover runs equal to the undisturbed one", tally.equal, "runs", Limit::at_least, tally.runs);
  report("takeover runs whose processes took over", tally.took_over, "runs");
  report("takeover runs that were started again", tally.started_again, "runs");
  for (auto& [fault, seconds] : tally.seconds)
    pass &= report_seconds(fmt::format("takeover after {}", name_of(fault)), seconds, fault == TakeoverFault::stop ? 4 : 1.5);
  // The others have repeated the step long before, so nobody waits for this process.
  pass &= report_seconds("a process started anew has joined", tally.seconds_until_joined, {});
  return pass;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = read_seeded_options(argc, argv, "takeover", 1000);
  if (!options) return 2;
  const fs::path folder = make_bench_folder("takeover");
  SeededTakeovers takeovers(measured_program(), folder);
  Tally tally;
  add_each_outcome(
      *options, [&](std::uint64_t seed) { return takeovers.run(seed); },
      [&](const TakeoverOutcome& outcome) { add(outcome, tally); });
  fs::remove_all(folder);
  return report_all(tally) ? 0 : 1;
}
