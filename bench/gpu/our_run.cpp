#include "bench/gpu/our_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "core/error.hpp"
#include "files/json.hpp"
#include "model/config/config.hpp"

namespace pipetrain::bench {

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto count = values.size();
  return {(values[(count - 1) / 2] + values[count / 2]) / 2, values.front(), values.back()};
}

std::vector<std::string> train_arguments(const Row& row, const Schedule& schedule, const std::filesystem::path& tokens,
                                         int steps) {
  std::vector<std::string> arguments = {"train", "--model", row.model, "--data", tokens.string()};
  const auto add = [&](const char* option, const auto& value) {
    arguments.emplace_back(option);
    arguments.push_back(fmt::format("{}", value));
  };
  if (row.layers > 0) add("--layers", row.layers);
  add("--seq-len", row.sequence);
  add("--microbatch", row.microbatch);
  add("--microbatches", row.microbatches);
  add("--pp", row.pp);
  add("--tp", row.tp);
  add("--dp", row.dp);
  if (row.cp > 1) add("--cp", row.cp);
  if (row.ep > 1) add("--ep", row.ep);
  if (row.zero > 0) add("--zero", row.zero);
  if (row.names_schedules()) {
    add("--schedule", schedule.name);
    add("--chunks", schedule.chunks);
  }
  add("--recompute", schedule.recompute);
  add("--device", row.on_cpu ? "cpu" : "cuda");
  add("--precision", row.precision());
  if (row.fp8_blocks) add("--fp8-recipe", "blockwise");
  if (row.on_cpu) add("--threads", 1);
  add("--lr", "1e-5");
  add("--steps", steps);
  return arguments;
}

void write_random_tokens(const Row& row, const std::filesystem::path& file) {
  const std::int64_t vocabulary = preset_config(row.model).vocabulary;
  const std::int64_t samples = std::max<std::int64_t>(64, row.microbatch * row.microbatches * row.dp);
  std::mt19937_64 random(1);
  std::ofstream out(file);
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    fmt::memory_buffer line;
    for (std::int64_t i = 0; i <= row.sequence; ++i) {
      fmt::format_to(std::back_inserter(line), "{}{}", i == 0 ? "{\"input_ids\":[" : ",",
                     random() % static_cast<std::uint64_t>(vocabulary));
    }
    out << std::string_view(line.data(), line.size()) << "]}\n";
  }
  if (!out.flush()) throw Error(ErrorKind::input, "bench gpu: " + file.string() + " cannot be written; make room");
}

RunFigures read_metrics(const std::filesystem::path& file, int warmup) {
  RunFigures figures;
  std::ifstream in(file);
  std::vector<double> seconds, rates, flops, bubbles;
  int lines = 0;
  for (std::string text; std::getline(in, text); ++lines) {
    const Json line = parse_json(text, {file.string()});
    const double took = line.at("seconds").as_double();
    if (lines == 0) {
      figures.start = line.at("elapsed").as_double() - took;
      for (const Json& bytes : line.at("memory_bytes")) figures.memory.push_back(bytes.as_double());
    }
    if (lines < warmup) continue;
    seconds.push_back(took);
    rates.push_back(line.at("tokens_per_second_per_device").as_double());
    flops.push_back(line.at("tflops_per_device").as_double());
    bubbles.push_back(line.at("bubble").as_double());
  }
  if (seconds.empty())
    throw Error(ErrorKind::input, fmt::format("{}: has {} steps, not more than {} to warm up", file.string(), lines, warmup));
  figures.seconds = spread_of(std::move(seconds));
  figures.tokens_per_second = spread_of(std::move(rates)).median;
  figures.tflops = spread_of(std::move(flops)).median;
  figures.bubble = spread_of(std::move(bubbles)).median;
  return figures;
}

std::vector<double> state_bytes(const std::string& dry_run) {
  std::vector<double> bytes;
  std::istringstream in(dry_run);
  bool table = false;
  for (std::string line; std::getline(in, line);) {
    if (line.find("parameters") != std::string::npos && line.find("device") != std::string::npos) {
      table = true;
      continue;
    }
    if (!table) continue;
    double device, replica, stage, rank, parameters, gradients, optimizer;
    if (!(std::istringstream(line) >> device >> replica >> stage >> rank >> parameters >> gradients >> optimizer)) break;
    bytes.push_back((parameters + gradients + optimizer) * (1 << 20));
  }
  if (bytes.empty()) throw Error(ErrorKind::internal, "bench gpu: --dry-run prints no table of devices");
  return bytes;
}

double most_without_state(const std::vector<double>& memory, const std::vector<double>& state) {
  double most = 0;
  for (std::size_t i = 0; i < std::min(memory.size(), state.size()); ++i) most = std::max(most, memory[i] - state[i]);
  return most;
}

}  // namespace pipetrain::bench
