#include "apps/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "model/costs.hpp"

namespace pipetrain {

namespace {

constexpr double gib = std::int64_t{1} << 30;

// As a shell reads it back as one word.
std::string quoted(const std::string& word) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string("-_./+:@%").find(c) != std::string::npos;
  };
  if (std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string command_line(const TuneOptions& options, const Layout& layout) {
  std::string line = "pipetrain --model " + quoted(options.model);
  if (options.layers_given) line += fmt::format(" --layers {}", options.request.config.layers);
  line += fmt::format(" --seq-len {} --pp {} --tp {} --dp {}", options.request.sequence, layout.pp, layout.tp, layout.dp);
  line +=
      fmt::format(" --microbatch {} --microbatches {} --schedule {}", layout.microbatch, layout.microbatches, layout.schedule);
  if (layout.schedule == "interleaved" || layout.schedule == "looped-bfs") line += fmt::format(" --chunks {}", layout.chunks);
  return line;
}

double tokens_per_second(const TuneOptions& options, const RankedLayout& ranked) {
  return static_cast<double>(options.request.global_batch * options.request.sequence) / ranked.seconds;
}

void print_json(const TuneOptions& options, const SearchResult& result) {
  std::string text = "[";
  for (const auto& ranked : result.best) {
    const Layout& layout = ranked.layout;
    const nlohmann::ordered_json object = {{"pp", layout.pp},
                                           {"tp", layout.tp},
                                           {"dp", layout.dp},
                                           {"chunks", layout.chunks},
                                           {"microbatch", layout.microbatch},
                                           {"microbatches", layout.microbatches},
                                           {"schedule", layout.schedule},
                                           {"step_seconds", ranked.seconds},
                                           {"tokens_per_second", tokens_per_second(options, ranked)},
                                           {"bubble", ranked.bubble},
                                           {"memory_bytes", ranked.memory},
                                           {"command", command_line(options, layout)}};
    text += (text.size() > 1 ? ",\n " : "\n ") + object.dump();
  }
  fmt::print("{}\n]\n", text);
}

void print_table(const TuneOptions& options, const SearchResult& result) {
  const auto& request = options.request;
  const auto& speed = request.speed;
  fmt::print("{}: {:.3g} B parameters, {} devices of {:.4g} GiB, {} sequences of {} tokens a step\n", options.model,
             static_cast<double>(parameter_count(request.config)) / 1e9, request.devices, speed.memory_bytes / gib,
             request.global_batch, request.sequence);
  fmt::print("each {:g} TFLOP/s, memory {:g} GB/s; links {:g} GB/s, {:g} us; {:g} us a block\n", speed.flops / 1e12,
             speed.memory_rate / 1e9, speed.link_rate / 1e9, speed.latency * 1e6, speed.block_overhead * 1e6);
  fmt::print("{} layouts looked at, {} of them found too large for the memory\n\n", result.candidates, result.too_large);
  fmt::print("{:>3} {:>3} {:>4} {:<11} {:>6} {:>8} {:>9} {:>10} {:>7} {:>6}\n", "pp", "tp", "dp", "schedule", "chunks", "batch",
             "step s", "tokens/s", "bubble", "GiB");
  for (const auto& ranked : result.best) {
    const Layout& layout = ranked.layout;
    fmt::print("{:>3} {:>3} {:>4} {:<11} {:>6} {:>8} {:>9.4g} {:>10.0f} {:>5.1f} % {:>6.1f}\n", layout.pp, layout.tp, layout.dp,
               layout.schedule, layout.chunks, fmt::format("{}x{}", layout.microbatches, layout.microbatch), ranked.seconds,
               tokens_per_second(options, ranked), 100 * ranked.bubble,
               static_cast<double>(*std::max_element(ranked.memory.begin(), ranked.memory.end())) / gib);
  }
  fmt::print("\nTo run them, the fastest first; GiB above is of the fullest device, here of each stage's:\n");
  for (const auto& ranked : result.best) {
    std::string memory;
    for (std::size_t stage = 0; stage < std::min<std::size_t>(ranked.memory.size(), 8); ++stage)
      memory += fmt::format("{}{:.1f}", stage ? " " : "", static_cast<double>(ranked.memory[stage]) / gib);
    if (ranked.memory.size() > 8) memory += " ...";
    fmt::print("{}  # {}\n", command_line(options, ranked.layout), memory);
  }
}

}  // namespace

int run_tune(const TuneOptions& options) {
  const SearchResult result = search_layouts(options.request, options.count);
  if (result.best.empty())
    throw Error(
        ErrorKind::out_of_memory,
        fmt::format("--memory {:g}: none of {} layouts of {} fits {} devices; use more or larger devices, a smaller "
                    "--global-batch or --seq-len",
                    options.request.speed.memory_bytes / gib, result.candidates, options.model, options.request.devices));
  for (const auto& note : options.notes) fmt::print(stderr, "{}\n", note);
  options.json ? print_json(options, result) : print_table(options, result);
  return 0;
}

}  // namespace pipetrain
