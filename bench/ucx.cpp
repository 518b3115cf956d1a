// Measures edges between two processes over UCX: messages that one process writes and the other reads, compared with
// messages moved as ucx_perftest moves its own, and the time from an actor to one in the other process; with `rates` or
// `latencies` these alone. Memory is that of CPUs. On one host the producer fills the consumer's slots, which are
// shared memory, so that a message only announces it; slots in other memory are copied once, and are compared with
// copies between equally many buffers.
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
#include "bench/ucx/plain_transfer.hpp"

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

// The rates that are measured alternately, so that other load affects all of them.
struct Rates {
  std::vector<double> edge, fetched, perftest, copies;            // messages alone
  std::vector<double> used, used_fetched, plain, in_one_process;  // messages that are written and read
};

Rates measure_size(EdgePair& pair, PlainTransfer& plain, std::size_t bytes, int messages) {
  using SlotMemory = EdgePair::SlotMemory;
  const int fewer = std::max(messages / 4, 16);
  Rates rates;
  for (int turn = 0; turn < turns; ++turn) {
    for (const SlotMemory where : {SlotMemory::transport, SlotMemory::device}) {
      const bool usual = where == SlotMemory::transport;
      pair.place_slots(where);
      pair.meet();
      (usual ? rates.edge : rates.fetched).push_back(bytes_per_second(pair, bytes, messages));
      pair.meet();
      (usual ? rates.used : rates.used_fetched).push_back(written_and_read(pair, bytes, fewer));
    }
    rates.plain.push_back(plain.written_and_read(bytes, fewer));
    if (!pair.leads()) continue;
    if (const auto result = run_perftest("ucp_am_bw", bytes, messages, free_port())) {
      rates.perftest.push_back(result->bytes_per_second);
    }
    rates.copies.push_back(copied_in_turns(bytes, messages));
    rates.in_one_process.push_back(written_and_read_in_one_process(bytes, fewer));
  }
  return rates;
}

// The ratio to ucx_perftest's own rate has no limit: it copies one buffer into another, which stay in a cache, while an
// edge copies nothing, or several buffers.
bool report_rates(const std::string& bench, const Rates& rates) {
  report(bench, best(rates.edge) / 1e9, "GB/s");
  report(bench + ", slots of other memory", best(rates.fetched) / 1e9, "GB/s");
  report(bench + ", copies between as many buffers", best(rates.copies) / 1e9, "GB/s");
  if (!rates.perftest.empty()) report(bench + ", ucx_perftest", best(rates.perftest) / 1e9, "GB/s");
  const std::string both = bench + ", written and read";
  report(both, best(rates.used) / 1e9, "GB/s");
  report(both + ", slots of other memory", best(rates.used_fetched) / 1e9, "GB/s");
  report(both + ", moved as ucx_perftest does", best(rates.plain) / 1e9, "GB/s");
  report(both + " in one process", best(rates.in_one_process) / 1e9, "GB/s");
  const bool used =
      report(both + ": share of moved as ucx_perftest does", best(rates.used) / best(rates.plain), "", Limit::at_least, 0.8);
  const bool shared =
      report(both + ": share of one process", best(rates.used) / best(rates.in_one_process), "", Limit::at_least, 0.8);
  const bool fetched = report(bench + ", slots of other memory: share of copies", best(rates.fetched) / best(rates.copies), "",
                              Limit::at_least, 0.8);
  return used && shared && fetched;
}

bool measure_rates(EdgeEnd& end) {
  PlainTransfer plain(end.control());
  bool pass = true;
  for (const auto& [name, bytes, messages] : sizes) {
    const Rates rates = measure_size(end.pair(), plain, bytes, messages);
    if (end.pair().leads()) pass &= report_rates(std::string("ucx edge ") + name, rates);
  }
  end.pair().meet();
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
  const bool rates = part == "latencies" || measure_rates(end);
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
