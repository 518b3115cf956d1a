// Measures the flight recorder: bytes for each step and stage, by how much it slows down actors that compute nothing,
// and how fast 10,000 recorded steps replay to the identical trace. ./dev bench replay
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>

#include "actors/engine/noop_compute.hpp"
#include "actors/engine/pipeline.hpp"
#include "bench/result.hpp"
#include "records/flight_record.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/record/replay.hpp"

using namespace pipetrain;

namespace {

constexpr int stages = 4, microbatches = 16, steps = 10'000;

struct FileRecorder : RunRecorder {
  explicit FileRecorder(const std::filesystem::path& path) : out(path, std::ios::binary) {}
  void begin(schedules::RecordedRun run) override { out << flight_record_head({"bench", std::move(run)}); }
  void step(schedules::RecordedStep step) override {
    for (const auto& log : step.logs) bytes += log.bytes.size();
    out << flight_record_step(step);
  }
  std::ofstream out;
  std::size_t bytes = 0;
};

// Returns microseconds for an action.
double run(std::shared_ptr<RunRecorder> recorder, int count) {
  PipelineOptions options;
  options.plan = with_end_of_step(schedules::build_schedule("1f1b", {stages, 1, microbatches}), {});
  options.recorder = std::move(recorder);
  std::size_t actions = 0;
  for (const auto& stage : options.plan.stages) actions += stage.size();
  Pipeline pipeline(
      options, [](StageId, const schedules::StageNeeds&) { return make_noop_compute(); },
      [](int) { return make_empty_source(); });
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t step = 1; step <= count; ++step)
    pipeline.step({step, microbatches, 1, 0}, [](const auto&) { return Verdict{}; });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return seconds * 1e6 / static_cast<double>(actions) / count;
}

// A single thread works, so its processor time is its time on a core of its own.
double core_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

// Returns million actions a second, the best of three.
double replay_rate(const std::filesystem::path& file) {
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    const double begin = core_seconds();
    FlightRecordReader reader(file);
    schedules::Replay replay(reader.head().run);
    while (const auto step = reader.next()) {
      replay.load(*step);
      replay.play();  // throws if anything differs from the record
    }
    best = std::max(best, static_cast<double>(replay.actions_replayed()) / (core_seconds() - begin) / 1e6);
  }
  return best;
}

}  // namespace

int main() {
  const auto file = std::filesystem::temp_directory_path() / ("pipetrain-replay-" + std::to_string(::getpid()) + ".rec");
  const auto recorder = std::make_shared<FileRecorder>(file);
  const double without = run(nullptr, steps / 10), with = run(recorder, steps);
  recorder->out.close();
  bool all = bench::report("bytes a step and stage, 1f1b m=16", static_cast<double>(recorder->bytes) / stages / steps, "bytes",
                           bench::Limit::at_most, 1024);
  bench::report("recording, 1f1b p=4 m=16", with - without, "us/action", bench::Limit::none, 0);
  all &= bench::report("replayed actions, 10,000 steps", replay_rate(file), "million/s", bench::Limit::at_least, 10);
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  return all ? 0 : 1;
}
