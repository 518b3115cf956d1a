// Edges between two processes over UCX: their rate beside that of UCX's own benchmark in the same run, and the time from an
// actor to one in the other process; with `rates` or `latencies` these alone. Memory is that of CPUs; on one host UCX moves it
// through shared memory.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "bench/result.hpp"
#include "bench/ucx/edge_pair.hpp"
#include "bench/ucx/perftest.hpp"

using namespace pipetrain;
using namespace pipetrain::bench;

namespace {

struct Size {
  const char* name;
  std::size_t bytes;
  int messages;
};
constexpr Size sizes[] = {{"1 MB", std::size_t{1} << 20, 2000}, {"32 MB", std::size_t{32} << 20, 40}};
constexpr std::size_t small = 1024;
constexpr int rounds = 2000, turns = 5;

double best(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }
double least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

// Ours and UCX's in turns, so that both meet the same disturbance.
bool measure_rates(EdgePair& pair) {
  bool pass = true;
  for (const auto& [name, bytes, messages] : sizes) {
    std::vector<double> ours, theirs;
    for (int turn = 0; turn < turns; ++turn) {
      pair.meet();
      ours.push_back(bytes_per_second(pair, bytes, messages));
      if (!pair.leads()) continue;
      if (const auto result = run_perftest("ucp_am_bw", bytes, messages, free_port())) {
        theirs.push_back(result->bytes_per_second);
      }
    }
    if (!pair.leads()) continue;
    const std::string bench = std::string("ucx edge ") + name;
    report(bench, best(ours) / 1e9, "GB/s");
    if (theirs.empty()) {
      std::fprintf(stderr, "bench: no ucx_perftest to compare with; install ucx-utils\n");
      pass = false;
      continue;
    }
    report(bench + " ucx_perftest", best(theirs) / 1e9, "GB/s");
    pass &= report(bench + " share of ucx_perftest", best(ours) / best(theirs), "", Limit::at_least, 0.8);
  }
  return pass;
}

bool measure_latencies(EdgePair& pair) {
  std::vector<double> threads, actors;
  for (int turn = 0; turn < turns; ++turn) {
    threads.push_back(thread_latency(pair, small, rounds));
    actors.push_back(actor_latency(pair, small, rounds));
  }
  if (!pair.leads()) return true;
  report("ucx thread to thread 1 KB", least(threads) * 1e6, "us");
  return report("ucx actor to actor 1 KB", least(actors) * 1e6, "us", Limit::at_most, 50);
}

int run(int process, std::uint16_t port, const std::string& part) try {
  EdgeEnd end(process, port);
  const bool latencies = part == "rates" || measure_latencies(end.pair());
  const bool rates = part == "latencies" || measure_rates(end.pair());
  end.pair().meet();
  return latencies && rates ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench: process %d: %s\n", process, error.what());
  return 1;
}

}  // namespace

int main(int count, char** words) {
  const std::string part = count > 1 ? words[1] : "";
  const std::uint16_t port = free_port();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(run(1, port, part));
  }
  const int status = run(0, port, part);
  int other = 0;
  waitpid(child, &other, 0);
  return status != 0 || other != 0 ? 1 : 0;
}
