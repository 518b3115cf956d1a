// Measures the cost of checkpoints: compares a step of a run that saves every 10 steps with one that does not save, and
// the rates at which a rank's file is written and read back with dd on the same disk.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/training/checkpoint/rank_file.hpp"
#include "actors/training/state/saved_parts.hpp"
#include "bench/faults/program_run.hpp"
#include "bench/result.hpp"
#include "core/threads/on_threads.hpp"
#include "model/config/config.hpp"
#include "model/weights/piecewise_weights.hpp"
#include "model/weights/safetensors_checksums.hpp"

namespace {

namespace fs = std::filesystem;
using namespace pipetrain;
using namespace pipetrain::bench;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string program() {
  if (const char* given = std::getenv("BENCH_PROGRAM")) return fs::absolute(given);
  return fs::read_symlink("/proc/self/exe").parent_path() / "pipetrain";
}

// Seconds at the end of each step, from --metrics.
std::vector<double> step_ends(const fs::path& metrics) {
  std::vector<double> ends;
  std::ifstream file(metrics);
  const std::string key = "\"elapsed\":";
  for (std::string line; std::getline(file, line);)
    if (const std::size_t at = line.find(key); at != std::string::npos)
      ends.push_back(std::atof(line.c_str() + at + key.size()));
  return ends;
}

// Returns the seconds of a step of the demo, after its first steps; negative if the run fails.
double seconds_a_step(const fs::path& folder, bool saving) {
  constexpr int steps = 80, first = 20;
  const fs::path metrics = folder / "metrics.jsonl", save = folder / "run";
  fs::remove_all(save);
  std::vector<std::string> words = {
      program(),        "--device", "cpu",       "--pp",          "2", "--steps", std::to_string(steps),
      "--log-interval", "1000000",  "--metrics", metrics.string()};
  if (saving) words.insert(words.end(), {"--save", save.string(), "--save-interval", "10", "--save-keep", "2"});
  ProgramRun run(words, {}, folder / "err");
  if (run.wait(std::chrono::seconds(600)) != 0) {
    fmt::print(stderr, "checkpoint: {}\n", run.err());
    return -1;
  }
  const std::vector<double> ends = step_ends(metrics);
  return ends.size() == steps ? (ends.back() - ends[first - 1]) / (steps - first) : -1;
}

// Alternates the two runs, so that other load on the machine affects both; the best of each is its own cost.
bool measure_cost(const fs::path& folder, int pairs) {
  double plain = 1e9, saving = 1e9;
  for (int pair = 0; pair < pairs; ++pair) {
    const double without = seconds_a_step(folder, false), with = seconds_a_step(folder, true);
    if (without <= 0 || with <= 0) return false;
    fmt::print(stderr, "checkpoint: {:.2f} ms a step, {:.2f} ms saving every 10\n", without * 1e3, with * 1e3);
    plain = std::min(plain, without);
    saving = std::min(saving, with);
  }
  return report("checkpoint every 10 steps, of a step of the CPU demo", 100 * (saving / plain - 1), "%", Limit::at_most, 3.5);
}

// Makes later reads come from the disk.
void drop_from_cache(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
}

double rate_of(const std::string& command, double bytes) {
  const auto start = Clock::now();
  return succeeds(command) ? bytes / seconds_since(start) : 0;
}

// The state of GPT-2 (124 million parameters, with AdamW's moments) as a single rank has it.
struct RankContents {
  RankContents() {
    const ModelConfig config = preset_config("gpt2");
    layout = layout_parameters(config, {blocks_of(config)}, 0, 1);
    values.resize(layout.weight_elements);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000003) * 1e-3F;
    const StatePlaces places(layout, {});
    for (const char* state : {"weights", "exp_avg", "exp_avg_sq"})
      for (const HeldPart& part : saved_parts({.layout = layout}, places))
        pieces.push_back({state, part.parameter, {part.begin, part.end}, values.data() + places.weight_at(part)});
  }

  // Loads into existing memory, on all cores, as the rank does.
  void load(const std::map<std::string, std::shared_ptr<const WeightSource>>& states) {
    std::vector<std::pair<const WeightSource*, const Parameter*>> loads;
    for (const auto& [name, source] : states)
      for (const Parameter& parameter : layout.parameters)
        if (!parameter.tied_copy) loads.emplace_back(source.get(), &parameter);
    on_threads(std::thread::hardware_concurrency(), loads.size(), [&](std::size_t i) {
      const auto [source, parameter] = loads[i];
      source->load(*parameter, values.data() + parameter->offset);
    });
  }

  ParameterLayout layout;
  std::vector<float> values;
  std::vector<HeldState> pieces;
};

bool measure_rates(const fs::path& folder, int tries) {
  RankContents contents;
  const ModelConfig config = preset_config("gpt2");
  const fs::path copy = folder / "dd";
  double written = 0, read = 0, dd_written = 0, dd_read = 0;
  for (int i = 0; i < tries; ++i) {
    auto start = Clock::now();
    const RankFileReport report = write_rank_file(folder, 0, contents.layout, contents.pieces);
    const auto bytes = static_cast<double>(report.checksums.bytes);
    written = std::max(written, bytes / seconds_since(start));
    const fs::path file = folder / report.name;
    const auto megabytes = static_cast<long>(bytes / 4e6);
    dd_written = std::max(
        dd_written, rate_of(fmt::format("dd if=/dev/zero of='{}' bs=4000000 count={} conv=fsync", copy.string(), megabytes),
                            static_cast<double>(megabytes) * 4e6));
    drop_from_cache(copy);
    dd_read = std::max(dd_read, rate_of(fmt::format("dd if='{}' of=/dev/null bs=4000000", copy.string()),
                                        static_cast<double>(megabytes) * 4e6));
    drop_from_cache(file);
    start = Clock::now();
    verify_safetensors(file, report.checksums, "the report");
    contents.load(piecewise_states(config, {file}));
    read = std::max(read, bytes / seconds_since(start));
    fs::remove(file);
    fs::remove(copy);
  }
  report("checkpoint dd writes", dd_written / 1e9, "GB/s");
  report("checkpoint dd reads", dd_read / 1e9, "GB/s");
  const bool writes = report("checkpoint writes, of dd's rate", written / dd_written, "ratio", Limit::at_least, 0.8);
  return report("checkpoint verifies and loads, of dd's rate", read / dd_read, "ratio", Limit::at_least, 0.8) && writes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && (argc != 3 || std::strcmp(argv[1], "--dir") != 0)) {
    fmt::print(stderr, "checkpoint: {}: give --dir DIR, a folder on the disk to measure [the one for temporary files]\n",
               argv[1]);
    return 2;
  }
  const fs::path base = argc == 3 ? fs::path(argv[2]) : fs::temp_directory_path();
  const fs::path folder = base / fmt::format("pipetrain-checkpoint-{}", ::getpid());
  fs::create_directories(folder);
  const bool cost = measure_cost(folder, 4);
  const bool rates = measure_rates(folder, 3);
  fs::remove_all(folder);
  return cost && rates ? 0 : 1;
}
