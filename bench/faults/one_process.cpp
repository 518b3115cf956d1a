// "exit" ends the process, so each run with that fault is in a child process.
#include "bench/faults/one_process.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "actors/engine/run_failed.hpp"
#include "actors/training/run/trainer.hpp"
#include "bench/result.hpp"
#include "model/weights/weights.hpp"
#include "schedules/builders/builders.hpp"

namespace pipetrain::bench {

namespace {

constexpr double longest_seconds = 10;

int threads_now() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int threads = 0;
  while (status >> word) {
    if (word == "Threads:") status >> threads;
  }
  return threads;
}

// A joined thread stays in the kernel's count for a moment.
bool leaves_threads(int before) {
  for (int i = 0; i < 500 && threads_now() > before; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return threads_now() > before;
}

ModelConfig small_model() {
  ModelConfig config;
  config.hidden = 32;
  config.layers = 4;
  config.heads = config.kv_heads = 4;
  config.head_dim = 8;
  config.intermediate = 48;
  config.vocabulary = 256;
  config.max_positions = 32;
  return config;
}

TrainJob seeded_job(FaultKind kind, unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  TrainJob job;
  job.config = small_model();
  job.initial.weights = random_weights(job.config, seed);
  DatasetOptions data;
  data.sequence_length = 16;
  data.vocabulary = 256;
  job.dataset = open_dataset(data);
  job.layout.pp = 1 + pick(3);
  job.layout.tp = 1 << pick(2);
  job.batch = {1 + pick(2), 1 + pick(6), 1};
  const auto& schedules = schedules::all_schedules();
  const auto& schedule = schedules[static_cast<std::size_t>(pick(static_cast<int>(schedules.size())))];
  job.layout.schedule = schedule.name;
  job.layout.chunks = schedule.default_chunks;
  if (schedule.has_ready_rule && pick(2) == 1) job.layout.order = schedules::Order::ready;
  job.fault = Fault{pick(static_cast<int>(job.batch.dp) * job.layout.pp * job.layout.tp), 1 + pick(2), kind};
  job.stall = std::chrono::milliseconds(100);
  return job;
}

// Returns true if the run fails with a named cause and everything stops.
bool fails_well(FaultKind kind, unsigned seed) {
  Trainer trainer(seeded_job(kind, seed));
  try {
    trainer.step();
    trainer.step();
  } catch (const RunFailed& failure) {
    return failure.everything_stopped() && std::string(failure.what()).size() > 10;
  }
  return false;
}

// Returns true if the child that ends in the middle of a step is gone, with its own status.
bool exits_well(unsigned seed) {
  const pid_t child = fork();
  if (child == 0) {
    fails_well(FaultKind::exit, seed);
    _exit(7);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

}  // namespace

bool faults_in_one_process(int runs) {
  bool all = true;
  const std::string of_runs = "runs of " + std::to_string(runs);
  const std::pair<const char*, FaultKind> kinds[] = {{"throw", FaultKind::raise},
                                                     {"exit", FaultKind::exit},
                                                     {"hang", FaultKind::hang},
                                                     {"nan", FaultKind::nan},
                                                     {"oom", FaultKind::out_of_memory}};
  for (const auto& [name, kind] : kinds) {
    int well = 0, leftover = 0;
    double slowest = 0;
    for (unsigned seed = 1; seed <= static_cast<unsigned>(runs); ++seed) {
      const int threads = threads_now();
      const auto start = std::chrono::steady_clock::now();
      well += kind == FaultKind::exit ? exits_well(seed) : fails_well(kind, seed);
      slowest = std::max(slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      leftover += leaves_threads(threads);
    }
    const std::string title = std::string("faults ") + name;
    all &= report(title + " ended with a cause", well, of_runs, Limit::at_least, runs);
    all &= report(title + " left threads", leftover, of_runs, Limit::at_most, 0);
    all &= report(title + " slowest", slowest, "s", Limit::at_most, longest_seconds);
  }
  return all;
}

}  // namespace pipetrain::bench
