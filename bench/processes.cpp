// Measures the cost of running a pipeline as several processes: alternates training over them with the same run in one
// process; with GPUs over CUDA IPC and over NCCL. Also checks that losses and norms have the same bits.
// bench_processes [cpu|cuda] [ROUNDS]
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/faults/program_run.hpp"
#include "bench/result.hpp"
#include "records/metrics_reader.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;

namespace {

constexpr int warm_up_steps = 2;  // not counted

struct Row {
  std::string name;
  std::vector<std::string> options;
  int processes = 2;
};

// One way to run a row.
struct Way {
  std::string name;
  std::vector<std::string> launch;  // the words before the row's options
  double least_share = 0;           // required share of one process's rate
};

class Runs {
 public:
  explicit Runs(std::string program) : program_(std::move(program)) {
    folder_ = fs::temp_directory_path() / ("pipetrain-bench-processes-" + std::to_string(std::random_device{}()));
    fs::create_directories(folder_);
  }
  ~Runs() { fs::remove_all(folder_); }
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

  const fs::path& folder() const { return folder_; }

  // Throws the run's own message if it fails.
  std::vector<StepMetrics> train(const Row& row, const Way& way, const std::vector<std::string>& more) {
    const fs::path metrics = folder_ / "metrics.jsonl", said = folder_ / "err";
    fs::remove(metrics);
    std::vector<std::string> words{program_};
    words.insert(words.end(), way.launch.begin(), way.launch.end());
    words.insert(words.end(), row.options.begin(), row.options.end());
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--metrics", metrics.string()});
    bench::ProgramRun run(words, {"NCCL_NVLS_ENABLE=0"}, said);
    const auto status = run.wait(std::chrono::minutes(5));
    if (status != 0) throw std::runtime_error(row.name + " " + way.name + " failed: " + run.err());
    return read_metrics(metrics);
  }

 private:
  std::string program_;
  fs::path folder_;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

fs::path write_random_rows(const fs::path& folder, int rows, int length) {
  const fs::path file = folder / "tokens.jsonl";
  std::ofstream out(file);
  std::mt19937 random(1);
  for (int row = 0; row < rows; ++row) {
    out << "{\"input_ids\":[";
    for (int i = 0; i < length; ++i) out << (i ? "," : "") << random() % 32000;
    out << "]}\n";
  }
  return file;
}

std::vector<Way> ways_of(const Row& row, bool cuda) {
  const std::string processes = std::to_string(row.processes);
  const Way one{"in one process", {"train"}, 0};
  if (!cuda) return {one, {"over ucx", {"launch", "--nproc", processes, "--transport", "ucx"}, 0.95}};
  return {one,
          {"over ipc", {"launch", "--nproc", processes, "--transport", "ipc"}, 0.98},
          {"over nccl", {"launch", "--nproc", processes, "--transport", "nccl"}, 0.96}};
}

std::vector<Row> rows_of(bool cuda, const Runs& runs) {
  if (!cuda) {
    return {{"gpt2 6 layers pp 4",
             {"--model", "gpt2", "--layers", "6", "--pp", "4", "--microbatches", "8", "--seq-len", "128", "--device", "cpu",
              "--threads", "1"},
             4}};
  }
  const std::string data = write_random_rows(runs.folder(), 64, 4097).string();
  const auto row = [&](const std::string& name, const char* axis, const char* microbatches) {
    return Row{name,
               {"--model", "llama2-7b", "--layers", "16", "--seq-len", "4096", "--precision", "bf16", "--lr", "1e-5", "--data",
                data, "--device", "cuda", axis, "2", "--microbatches", microbatches}};
  };
  return {row("llama2-7b 16 layers pp 2", "--pp", "16"), row("llama2-7b 16 layers dp 2", "--dp", "8"),
          row("llama2-7b 16 layers tp 2", "--tp", "8")};
}

bool compare_bits(Runs& runs, const Row& row, const std::vector<Way>& ways) {
  bool all = true;
  std::vector<std::array<double, 2>> expected;
  for (const Way& way : ways) {
    std::vector<std::array<double, 2>> learned;
    for (const auto& step : runs.train(row, way, {"--steps", "3", "--deterministic", "on"}))
      learned.push_back({step.loss.value(), step.grad_norm.value()});
    if (expected.empty()) expected = learned;
    if (&way == &ways.front()) continue;
    all &= bench::report("processes " + row.name + " " + way.name + " equal to the bit", learned == expected ? 1 : 0, "of 1",
                         bench::Limit::at_least, 1);
  }
  return all;
}

bool compare_rates(Runs& runs, const Row& row, const std::vector<Way>& ways, int rounds) {
  std::map<std::string, std::vector<double>> rates;
  for (int round = 0; round < rounds; ++round) {
    for (const Way& way : ways) {
      for (const auto& step : runs.train(row, way, {"--steps", "8"}))
        if (step.step > warm_up_steps) rates[way.name].push_back(step.tokens_per_second.value());
    }
  }
  bool all = true;
  const double one = median(rates.at(ways.front().name));
  for (const Way& way : ways) {
    const double rate = median(rates.at(way.name));
    const auto [least, most] = std::minmax_element(rates.at(way.name).begin(), rates.at(way.name).end());
    bench::report("processes " + row.name + " " + way.name, rate, "tokens/s");
    fmt::print(stderr, "{} {}: {:.0f} to {:.0f} tokens/s over {} steps\n", row.name, way.name, *least, *most,
               rates.at(way.name).size());
    if (way.least_share > 0)
      all &= bench::report("processes " + row.name + " " + way.name + ", of one process", rate / one, "x",
                           bench::Limit::at_least, way.least_share);
  }
  return all;
}

}  // namespace

int main(int count, char** words) {
  const bool cuda = count > 1 && std::string(words[1]) == "cuda";
  const int rounds = count > 2 ? std::atoi(words[2]) : 3;
  if ((count > 1 && !cuda && std::string(words[1]) != "cpu") || rounds < 1) {
    fmt::print(stderr, "processes: give cpu or cuda, and a number of rounds\n");
    return 2;
  }
  const char* given = std::getenv("BENCH_PROGRAM");
  Runs runs(given ? given : (fs::path(words[0]).parent_path() / "pipetrain").string());
  try {
    bool all = true;
    for (const Row& row : rows_of(cuda, runs)) {
      const auto ways = ways_of(row, cuda);
      all &= compare_bits(runs, row, ways);
      all &= compare_rates(runs, row, ways, rounds);
    }
    return all ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "processes: {}\n", error.what());
    return 1;
  }
}
