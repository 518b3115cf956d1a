// Seeded runs are shared out to workers.
#include "bench/faults/seeded_bench.hpp"

#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "catch.hpp"

using namespace pipetrain::bench;

TEST_CASE("workers run each seed once, side by side", "[bench]") {
  const int workers = GENERATE(1, 4);
  std::mutex mutex;
  std::multiset<std::uint64_t> seeds;
  std::set<std::thread::id> threads;
  for_each_seed({.runs = 20, .seed = 7, .workers = workers}, [&](std::uint64_t seed) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::lock_guard lock(mutex);
    seeds.insert(seed);
    threads.insert(std::this_thread::get_id());
  });
  CHECK(seeds.size() == 20);
  for (std::uint64_t seed = 7; seed < 27; ++seed) CHECK(seeds.count(seed) == 1);
  CHECK((threads.size() > 1) == (workers > 1));
}

TEST_CASE("no seeded run begins after the time limit", "[bench]") {
  int runs = 0;
  for_each_seed({.runs = 1000, .seconds = 1}, [&](std::uint64_t) {
    ++runs;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  CHECK(runs >= 1);
  CHECK(runs <= 4);
}
