#include "apps/tune/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>

#include "apps/output/output_files.hpp"
#include "apps/output/stderr_lines.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "files/json_value.hpp"
#include "model/config/mode_names.hpp"
#include "model/costs.hpp"
#include "schedules/draw/utf8.hpp"
#include "schedules/plan/plan_text.hpp"

namespace pipetrain {

namespace {

constexpr double printed_gib = std::int64_t{1} << 30;

// Quotes a word so that a shell reads it back as one.
std::string quoted_for_shell(const std::string& word) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string("-_./+:@%").find(c) != std::string::npos;
  };
  if (std::all_of(word.begin(), word.end(), is_plain)) return word;
  if (schedules::valid_utf8(word) != word) {  // JSON cannot hold it, so it is written with escapes
    std::string text = "$'";
    for (const char c : word) text += is_plain(c) ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    return text + "'";
  }
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string recompute_text(const Layout& layout) {
  const std::string name = name_of(layout.recompute);
  return layout.recompute_layers ? fmt::format("{} of {}", name, *layout.recompute_layers) : name;
}

// Returns the path of the plan of an auto or solver layout.
std::filesystem::path plan_path(const TuneOptions& options, const Layout& layout) {
  const bool again = layout.recompute != Recompute::none;
  const std::string zero = layout.zero.stage > 0 ? fmt::format("-zero{}", layout.zero.stage) : "";
  const std::string cp = layout.cp > 1 ? fmt::format("-cp{}", layout.cp) : "";
  const std::string ep = layout.ep > 1 ? fmt::format("-ep{}", layout.ep) : "";
  return *options.plans / fmt::format("{}-pp{}{}-tp{}-dp{}{}{}-microbatch{}{}{}.txt", layout.schedule, layout.pp, cp, layout.tp,
                                      layout.dp, ep, zero, layout.microbatch, again ? "-recompute-" : "",
                                      again ? name_of(layout.recompute) : "");
}

void put_plans(const TuneOptions& options, const SearchResult& result) {
  OutputFiles files;
  for (const RankedLayout& ranked : result.best)
    if (const Layout& layout = ranked.layout; layout.plan)
      files.add("plans", plan_path(options, layout), [&](std::ostream& out) { out << schedules::to_text(*layout.plan); });
  files.put_in_place();
}

void write_plans(const TuneOptions& options, const SearchResult& result) {
  if (!options.plans) return;
  std::error_code error;
  const bool made = std::filesystem::create_directory(*options.plans, error);
  if (error)
    throw Error(ErrorKind::input,
                fmt::format("--plans {}: cannot be made ({}); give another folder", options.plans->string(), error.message()));
  try {
    put_plans(options, result);
  } catch (...) {
    if (made) std::filesystem::remove(*options.plans, error);
    throw;
  }
}

// With several hosts the command runs on each, with the words in capitals filled in.
std::string command_line(const TuneOptions& options, const Layout& layout) {
  const int hosts = options.request.hosts;
  std::string line = "pipetrain ";
  if (hosts > 1) line += fmt::format("--nnodes {} --node-rank NODE --master HOST:29500 --token-file TOKEN ", hosts);
  line += "--model " + quoted_for_shell(options.model);
  if (options.layers_given) line += fmt::format(" --layers {}", options.request.config.layers);
  if (options.request.config.mtp.is_trained()) line += fmt::format(" --mtp-loss {}", options.request.config.mtp.loss);
  if (options.adapter.wanted()) line += fmt::format(" --lora-rank {}", options.adapter.rank);
  if (options.adapter.targets != AdapterSettings{}.targets) line += " --lora-targets " + options.adapter.targets;
  const WeightForm form = options.request.config.base_form;
  if (options.base_precision && form != WeightForm::plain) line += fmt::format(" --base-precision {}", name_of(form));
  line += fmt::format(" --seq-len {} --pp {} --tp {} --dp {}", options.request.sequence, layout.pp, layout.tp, layout.dp);
  if (layout.cp > 1) line += fmt::format(" --cp {}", layout.cp);
  if (layout.ep > 1) line += fmt::format(" --ep {}", layout.ep);
  if (layout.zero.stage > 0) line += fmt::format(" --zero {}", layout.zero.stage);
  line += fmt::format(" --microbatch {} --microbatches {}", layout.microbatch, layout.microbatches);
  line += " --schedule " + (layout.plan ? quoted_for_shell(plan_path(options, layout).string()) : layout.schedule);
  if (layout.schedule == "interleaved" || layout.schedule == "looped-bfs") line += fmt::format(" --chunks {}", layout.chunks);
  if (!layout.cut.empty()) line += " --cut " + cut_text(layout.cut);
  const auto& request = options.request;
  Offload offload = request.offload;
  offload.activations = layout.offloaded_activations > 0;
  if (offload.any()) line += fmt::format(" --offload {}", to_string(offload));
  if (offload.optimizer && offload.optimizer_fraction < 1)
    line += fmt::format(" --optimizer-offload-fraction {:g}", offload.optimizer_fraction);
  if (offload.activations && layout.offloaded_activations < 1)
    line += fmt::format(" --activation-offload-fraction {:g}", layout.offloaded_activations);
  if (layout.recompute != Recompute::none) line += fmt::format(" --recompute {}", name_of(layout.recompute));
  if (layout.recompute_layers) line += fmt::format(" --recompute-num-layers {}", *layout.recompute_layers);
  if (request.optimizer.name != OptimizerSettings{}.name) line += fmt::format(" --optimizer {}", request.optimizer.name);
  const Compression compression = layout.compression(request);
  if (compression.gradients != BlockCode::none) line += fmt::format(" --compress-gradients {}", name_of(compression.gradients));
  if (compression.hosts > 0) line += fmt::format(" --compress-hosts {}", compression.hosts);
  if (compression.weights != BlockCode::none) line += fmt::format(" --compress-weights {}", name_of(compression.weights));
  if (request.post_validation) line += " --post-validation on";
  line += fmt::format(" --precision {}", precision_name(request.precision));
  if (request.precision.fp8_blockwise) line += fmt::format(" --fp8-recipe {}", fp8_recipe_name(request.precision));
  if (request.device == DeviceKind::cpu) line += " --device cpu";
  return line;
}

double tokens_per_second(const TuneOptions& options, const RankedLayout& ranked) {
  return static_cast<double>(options.request.global_batch * options.request.sequence) / ranked.seconds;
}

void print_search_json(const TuneOptions& options, const SearchResult& result) {
  std::string text = "[";
  for (const auto& ranked : result.best) {
    const Layout& layout = ranked.layout;
    const Json object =
        Json::object({{"pp", layout.pp},
                      {"cp", layout.cp},
                      {"tp", layout.tp},
                      {"dp", layout.dp},
                      {"ep", layout.ep},
                      {"chunks", layout.chunks},
                      {"microbatch", layout.microbatch},
                      {"microbatches", layout.microbatches},
                      {"schedule", layout.schedule},
                      {"recompute", name_of(layout.recompute)},
                      {"recompute_num_layers", layout.recompute_layers ? Json(*layout.recompute_layers) : Json()},
                      {"zero", layout.zero.stage},
                      {"offloaded_activations", layout.offloaded_activations},
                      {"step_seconds", ranked.seconds},
                      {"tokens_per_second", tokens_per_second(options, ranked)},
                      {"bubble", ranked.bubble},
                      {"gap", ranked.gap ? Json(*ranked.gap) : Json()},
                      {"cut", layout.cut.empty() ? Json() : Json(layout.cut)},
                      {"step_seconds_by_cost", ranked.seconds_by_cost ? Json(*ranked.seconds_by_cost) : Json()},
                      {"cut_gap", ranked.cut_gap ? Json(*ranked.cut_gap) : Json()},
                      {"memory_bytes", ranked.memory},
                      {"command", command_line(options, layout)}});
    text += (text.size() > 1 ? ",\n " : "\n ") + object.dump({.order = JsonOrder::as_added, .replace = true});
  }
  fmt::print("{}\n]\n", text);
}

// Returns the gain of a searched cut, to follow its layout.
std::string cut_gain(const RankedLayout& ranked) {
  if (!ranked.cut_gap) return "";
  const std::string gain = ranked.seconds_by_cost
                               ? fmt::format("{:.1f} % shorter", 100 * (1 - ranked.seconds / *ranked.seconds_by_cost))
                               : std::string("by cost it does not fit");
  return fmt::format("  cut: {}, gap {:.1f} %", gain, 100 * *ranked.cut_gap);
}

void print_cut_search(const SearchResult& result) {
  fmt::print(
      "\n{} looked at, {}. cut: against the same layout cut by cost; gap: how much shorter any cut and order of its sizes,\n"
      "chunks and recomputation could be at most\n",
      counted(result.cuts_tried, "cut"),
      result.cuts_left_out ? "until the limit ended the search" : "until no move of blocks helped any more");
}

std::string too_long_text(const SearchResult& result) {
  return result.too_long > 0 ? fmt::format(", {} of too many microbatches to simulate", result.too_long) : "";
}

void print_search_table(const TuneOptions& options, const SearchResult& result) {
  const auto& request = options.request;
  const auto& speed = request.speed;
  fmt::print("{}: {:.3g} B parameters, {} of {:.4g} GiB, {} of {} a step\n", options.model,
             static_cast<double>(parameter_count(request.config)) / 1e9, counted(request.devices, "device"),
             speed.memory_bytes / printed_gib, counted(request.global_batch, "sequence"), counted(request.sequence, "token"));
  const bool fp8 = request.precision.fp8_products;
  const std::string rates = fp8 ? fmt::format("{:g} TFLOP/s in fp8, {:g} in bf16", speed.fp8_flops / 1e12, speed.flops / 1e12)
                                : fmt::format("{:g} TFLOP/s in {}", speed.flops / 1e12, precision_name(request.precision));
  fmt::print("each {}, memory {:g} GB/s; links {:g} GB/s, {:g} us; {:g} us a block\n", rates, speed.memory_rate / 1e9,
             speed.link_rate / 1e9, speed.latency * 1e6, speed.block_overhead * 1e6);
  if (request.cp > 1) fmt::print("{} devices share each sequence\n", request.cp);
  if (request.hosts > 1)
    fmt::print("on {} hosts, links between them {:g} GB/s, {:g} us\n", request.hosts, speed.host_link_rate / 1e9,
               speed.host_latency * 1e6);
  fmt::print(
      "{} layouts looked at, {} of them found too large for the memory{}{}\n\n", result.candidates, result.too_large,
      too_long_text(result),
      result.auto_left_out > 0 ? fmt::format("; auto had no time for its {} least promising ones", result.auto_left_out) : "");
  fmt::print("{:>3} {:>3} {:>4} {:>4} {:<11} {:>6} {:>8} {:<10} {:>8} {:>9} {:>7} {:>6}\n", "pp", "tp", "dp", "zero",
             "schedule", "chunks", "batch", "recompute", "step s", "tokens/s", "bubble", "GiB");
  for (const auto& ranked : result.best) {
    const Layout& layout = ranked.layout;
    fmt::print("{:>3} {:>3} {:>4} {:>4} {:<11} {:>6} {:>8} {:<10} {:>8.4g} {:>9.0f} {:>5.1f} % {:>6.1f}{}{}{}\n", layout.pp,
               layout.tp, layout.dp, layout.zero.stage, layout.schedule, layout.chunks,
               fmt::format("{}x{}", layout.microbatches, layout.microbatch), recompute_text(layout), ranked.seconds,
               tokens_per_second(options, ranked), 100 * ranked.bubble,
               static_cast<double>(*std::max_element(ranked.memory.begin(), ranked.memory.end())) / printed_gib,
               layout.ep > 1 ? fmt::format("  ep {}", layout.ep) : "",
               ranked.gap ? fmt::format("  gap {:.1f} %", 100 * *ranked.gap) : "", cut_gain(ranked));
  }
  if (request.search_cuts) print_cut_search(result);
  fmt::print("\nTo run them{}, the fastest first; GiB above is of the fullest device, here of each stage's:\n",
             request.hosts > 1 ? " on every host, with its number from 0 (NODE), the first one's name (HOST) and a token" : "");
  for (const auto& ranked : result.best) {
    std::string memory;
    for (std::size_t stage = 0; stage < std::min<std::size_t>(ranked.memory.size(), 8); ++stage)
      memory += fmt::format("{}{:.1f}", stage ? " " : "", static_cast<double>(ranked.memory[stage]) / printed_gib);
    if (ranked.memory.size() > 8) memory += " ...";
    fmt::print("{}  # {}\n", command_line(options, ranked.layout), memory);
  }
}

// Reports the progress of a long search every few seconds.
class SlowSearch {
 public:
  void operator()(const SearchProgress& progress) {
    const auto now = Clock::now();
    if (now < next_) return;
    next_ = now + pause;
    print_note(fmt::format("searching for {} s: {}, {} of them simulated",
                           std::chrono::duration_cast<std::chrono::seconds>(now - begin_).count(),
                           counted(progress.bounded, "layout"), progress.simulated));
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds pause{3};
  Clock::time_point begin_ = Clock::now(), next_ = begin_ + pause;
};

}  // namespace

int run_tune(const TuneOptions& options) {
  LayoutRequest request = options.request;
  request.progress = SlowSearch();
  const SearchResult result = search_layouts(request, options.count);
  if (result.best.empty())
    throw Error(ErrorKind::out_of_memory,
                fmt::format("--memory {:g}: none of {} layouts of {} fits {} devices{}; use more or larger devices, a smaller "
                            "--global-batch or --seq-len",
                            options.request.speed.memory_bytes / printed_gib, result.candidates, options.model,
                            options.request.devices, too_long_text(result)));
  write_plans(options, result);
  for (const auto& note : options.notes) print_note(note);
  options.json ? print_search_json(options, result) : print_search_table(options, result);
  return 0;
}

}  // namespace pipetrain
