// The command line of benchmarks that make seeded runs, and the program that they run.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace pipetrain::bench {

struct SeededOptions {
  int runs = 1;
  std::uint64_t seed = 1;  // of the first run; each further run has the next one
  int workers = 1;         // runs side by side
  int seconds = 0;         // after which no further run begins; 0: no limit
};

// Reads --runs N, --seed N, --workers N and --seconds N. Returns no value after printing what is wrong; the benchmark then ends
// with status 2.
inline std::optional<SeededOptions> read_seeded_options(int argc, char** argv, const char* bench, int usual_runs) {
  SeededOptions options{.runs = usual_runs};
  for (int i = 1; i < argc; i += 2) {
    const char* text = i + 1 < argc ? argv[i + 1] : "";
    const char* end = text + std::strlen(text);
    const auto read = [&](const char* name, auto& number) {
      return std::strcmp(argv[i], name) == 0 && end != text && std::from_chars(text, end, number).ptr == end && number > 0;
    };
    if (read("--runs", options.runs) || read("--seed", options.seed) || read("--workers", options.workers) ||
        read("--seconds", options.seconds))
      continue;
    fmt::print(stderr,
               "{}: {}: give --runs N [{}], --seed N [1], --workers N runs side by side [1], --seconds N after which no run "
               "begins [no limit]\n",
               bench, argv[i], usual_runs);
    return std::nullopt;
  }
  return options;
}

// Calls run with the seed of each run, in as many threads as there are workers.
inline void for_each_seed(const SeededOptions& options, const std::function<void(std::uint64_t seed)>& run) {
  const auto begin = std::chrono::steady_clock::now();
  const auto in_time = [&] {
    return options.seconds == 0 || std::chrono::steady_clock::now() - begin < std::chrono::seconds(options.seconds);
  };
  std::atomic<int> begun = 0;
  const auto work = [&] {
    for (int next = begun++; next < options.runs && in_time(); next = begun++)
      run(options.seed + static_cast<std::uint64_t>(next));
  };
  std::vector<std::thread> workers;
  for (int worker = 0; worker < options.workers; ++worker) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
}

// Calls run with the seed of each run, as for_each_seed() does, and `add` with each outcome, one at a time.
template <class Run, class Add>
void add_each_outcome(const SeededOptions& options, Run run, Add add) {
  std::mutex mutex;
  for_each_seed(options, [&](std::uint64_t seed) {
    const auto outcome = run(seed);
    const std::lock_guard lock(mutex);
    add(outcome);
  });
}

// Returns BENCH_PROGRAM, or the pipetrain beside this benchmark.
inline std::filesystem::path measured_program() {
  if (const char* given = std::getenv("BENCH_PROGRAM")) return std::filesystem::absolute(given);
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "pipetrain";
}

// Makes the folder of this process's runs.
inline std::filesystem::path make_bench_folder(const char* bench) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("pipetrain-{}-{}", bench, ::getpid());
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace pipetrain::bench
