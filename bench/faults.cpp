// Seeded failures, in one process and of runs of several: nothing may hang, everything must be named.
#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include "bench/faults/one_process.hpp"
#include "bench/faults/processes.hpp"

int main(int argc, char** argv) {
  int runs = 100;
  for (int i = 1; i < argc; ++i) {
    const char* end = i + 1 < argc ? argv[i + 1] + std::strlen(argv[i + 1]) : nullptr;
    if (std::strcmp(argv[i], "--faults") == 0 && end && std::from_chars(argv[i + 1], end, runs).ptr == end && runs > 0) {
      ++i;
    } else {
      fmt::print(stderr, "faults: {}: give --faults N, of each kind [100]\n", argv[i]);
      return 2;
    }
  }
  const bool one = pipetrain::bench::faults_in_one_process(runs);
  const bool several = pipetrain::bench::faults_of_processes(runs);
  return one && several ? 0 : 1;
}
