#include "bench/gpu/report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

namespace pipetrain::bench {
namespace {

constexpr double gibibyte = 1024.0 * 1024 * 1024;
constexpr double longest_start = 10;            // seconds
constexpr double largest_prediction_error = 3;  // percent
constexpr double same_time = 0.005;             // measured times that count as equal

double error_percent(double predicted, double measured) { return 100 * std::abs(predicted / measured - 1); }

// Returns the ratio of our throughput to the peer's: within a round if both ran, else between the best variants.
double ratio_to_peer(const RowResult& result) {
  if (result.ours.size() == 1 && result.peers.size() == 1 && !result.ratios.empty()) return spread_of(result.ratios).median;
  return result.ours.front().figures.tokens_per_second / result.peers.front().tokens_per_second;
}

std::string name_of(const RowResult& result, const std::string& what) { return "gpu " + result.row.name + " " + what; }

void add_peer(const RowResult& result, std::vector<Number>& numbers) {
  const RunFigures &ours = result.ours.front().figures, &peer = result.peers.front();
  numbers.push_back({name_of(result, "PyTorch"), peer.tokens_per_second, "tokens/s/GPU"});
  numbers.push_back({name_of(result, "ratio to PyTorch"), ratio_to_peer(result), "ratio",
                     result.row.least > 0 ? Limit::at_least : Limit::none, result.row.least});
  if (ours.memory_without_state > 0)
    numbers.push_back({name_of(result, "peak memory without state"), ours.memory_without_state / gibibyte, "GiB",
                       Limit::at_most, peer.memory_without_state / gibibyte});
}

void add_shares(const RowResult& result, std::vector<Number>& numbers) {
  const TimeShares& shares = *result.shares;
  for (const auto& [what, share] : {std::pair("matrix products", shares.matrices),
                                    {"attention", shares.attention},
                                    {"elementwise", shares.elementwise},
                                    {"communication exposed", shares.communication},
                                    {"bubble", shares.bubble},
                                    {"host", shares.host}}) {
    numbers.push_back({name_of(result, std::string("time in ") + what), 100 * share, "%"});
  }
  numbers.push_back({name_of(result, "actions that the host held up"), 100 * shares.launch_bound, "% of their time"});
}

void add_schedules(const RowResult& result, std::vector<Number>& numbers) {
  const bool promised = result.row.predictable;
  for (const ScheduleResult& one : result.ours) {
    const double measured = one.figures.seconds.median;
    if (one.predicted == 0) continue;
    numbers.push_back({name_of(result, "step predicted, " + one.schedule.text()), error_percent(one.predicted, measured),
                       "% off", promised ? Limit::at_most : Limit::none, largest_prediction_error});
    if (one.from_split_run && one.schedule.name != "zb-h1")
      numbers.push_back({name_of(result, "step predicted from zb-h1's costs, " + one.schedule.text()),
                         error_percent(*one.from_split_run, measured), "% off"});
  }
  if (result.ours.size() < 2) return;
  numbers.push_back({name_of(result, "schedules ranked right"), ranked_right(result.ours) ? 1.0 : 0.0, "yes is 1",
                     promised ? Limit::at_least : Limit::none, 1});
  numbers.push_back(
      {name_of(result, "schedules ranked right from zb-h1's costs"), ranked_right(result.ours, true) ? 1.0 : 0.0, "yes is 1"});
}

// Adds the share of the communication that is overlapped, for the step whose shares were measured.
void add_hidden(const RowResult& result, std::vector<Number>& numbers) {
  const ScheduleResult* const apart = fastest_apart(result);
  if (apart == nullptr || !result.shares || result.shares->communication <= 0) return;
  const double exposed = result.shares->communication * result.shares->seconds;
  for (const ScheduleResult& one : result.ours) {
    if (result.row.can_profile(one.schedule)) continue;
    const double saved = apart->figures.seconds.median - one.figures.seconds.median;
    numbers.push_back(
        {name_of(result, "communication exposed by " + apart->schedule.text() + " that " + one.schedule.text() + " hides"),
         100 * saved / exposed, "%"});
  }
}

std::string or_dash(bool there, const std::string& text) { return there ? text : "-"; }

}  // namespace

std::vector<Number> numbers_of(const RowResult& result) {
  std::vector<Number> numbers;
  if (result.ours.empty()) return numbers;
  const RunFigures& ours = result.ours.front().figures;
  numbers.push_back({name_of(result, "throughput"), ours.tokens_per_second, "tokens/s/GPU"});
  numbers.push_back({name_of(result, "model rate"), ours.tflops, "TFLOP/s/GPU"});
  if (!result.peers.empty()) add_peer(result, numbers);
  if (result.row.recorded > 0)
    numbers.push_back(
        {name_of(result, "ratio to PyTorch's recorded figure"), ours.tokens_per_second / result.row.recorded, "ratio"});
  if (result.limit) {
    const RowLimit& limit = *result.limit;
    numbers.push_back({name_of(result, "limit"), limit.tokens_per_second, "tokens/s/GPU"});
    numbers.push_back({name_of(result, "share of the limit"), ours.tokens_per_second / limit.tokens_per_second, "ratio"});
    numbers.push_back({name_of(result, "rate of matrix products alone"), limit.matrix_tflops, "TFLOP/s"});
    numbers.push_back({name_of(result, "rate of attention alone"), limit.attention_tflops, "TFLOP/s"});
  }
  numbers.push_back({name_of(result, "start to first step"), ours.start, "s", result.row.on_cpu ? Limit::none : Limit::at_most,
                     longest_start});
  if (result.not_deterministic)
    numbers.push_back({name_of(result, "--deterministic on, of the throughput"),
                       ours.tokens_per_second / result.not_deterministic->tokens_per_second, "ratio"});
  if (result.taken_bytes > 0) {
    numbers.push_back({name_of(result, "memory"), *std::max_element(ours.memory.begin(), ours.memory.end()) / gibibyte, "GiB"});
    numbers.push_back({name_of(result, "memory by the driver"), result.taken_bytes / gibibyte, "GiB"});
  }
  if (result.shares) add_shares(result, numbers);
  add_hidden(result, numbers);
  if (result.row.names_schedules()) add_schedules(result, numbers);
  return numbers;
}

bool ranked_right(const std::vector<ScheduleResult>& schedules, bool from_split_run) {
  for (const auto& a : schedules) {
    for (const auto& b : schedules) {
      if (from_split_run && (!a.from_split_run || !b.from_split_run)) continue;
      if (a.predicted == 0 || b.predicted == 0) continue;
      const double slower = a.figures.seconds.median / b.figures.seconds.median;
      const bool faster = from_split_run ? *a.from_split_run < *b.from_split_run : a.predicted < b.predicted;
      if (slower > 1 + same_time && faster) return false;
    }
  }
  return true;
}

std::string throughput_table(const std::vector<RowResult>& results) {
  std::string table =
      fmt::format("{:<24} {:>8} {:>17} {:>9} {:>8} {:>9} {:>7} {:>7} {:>6} {:>8} {:>8} {:>7}\n", "row", "tok/s/GPU",
                  "(seconds a step)", "TFLOP/s", "bubble", "PyTorch", "ratio", "limit", "share", "memory", "PyTorch", "start");
  for (const RowResult& result : results) {
    if (result.ours.empty()) {
      table += fmt::format("{:<24} failed: {}\n", result.row.name, result.notes.empty() ? "" : result.notes.front());
      continue;
    }
    const RunFigures& ours = result.ours.front().figures;
    const bool peer = !result.peers.empty();
    table += fmt::format(
        "{:<24} {:>8.0f} {:>17} {:>9.0f} {:>7.1f}% {:>9} {:>7} {:>7} {:>6} {:>8} {:>8} {:>6.1f}s {}\n", result.row.name,
        ours.tokens_per_second, fmt::format("{:.4f}-{:.4f}", ours.seconds.least, ours.seconds.most), ours.tflops,
        100 * ours.bubble, or_dash(peer, peer ? fmt::format("{:.0f}", result.peers.front().tokens_per_second) : ""),
        or_dash(peer, peer ? fmt::format("{:.3f}", ratio_to_peer(result)) : ""),
        or_dash(result.limit.has_value(), result.limit ? fmt::format("{:.0f}", result.limit->tokens_per_second) : ""),
        or_dash(result.limit.has_value(),
                result.limit ? fmt::format("{:.3f}", ours.tokens_per_second / result.limit->tokens_per_second) : ""),
        fmt::format("{:.1f}", ours.memory_without_state / gibibyte),
        or_dash(peer, peer ? fmt::format("{:.1f}", result.peers.front().memory_without_state / gibibyte) : ""), ours.start,
        ours.variant.empty() ? "" : "(" + ours.variant + (peer ? "; " + result.peers.front().variant : "") + ")");
  }
  return table + "memory: GiB of the fullest GPU without parameters, gradients and optimizer state\n";
}

std::string shares_table(const std::vector<RowResult>& results) {
  std::string table;
  for (const RowResult& result : results) {
    if (!result.shares) continue;
    if (table.empty())
      table =
          fmt::format("{:<24} {:>9} {:>9} {:>10} {:>12} {:>14} {:>7} {:>6} {:>14}\n", "where a step's time goes, %", "seconds",
                      "matrices", "attention", "elementwise", "communication", "bubble", "host", "(launch-bound)");
    const TimeShares& shares = *result.shares;
    table +=
        fmt::format("{:<27} {:>9.4f} {:>9.1f} {:>10.1f} {:>12.1f} {:>14.1f} {:>7.1f} {:>6.1f} {:>14.1f}\n", result.row.name,
                    shares.seconds, 100 * shares.matrices, 100 * shares.attention, 100 * shares.elementwise,
                    100 * shares.communication, 100 * shares.bubble, 100 * shares.host, 100 * shares.launch_bound);
  }
  return table;
}

std::string schedules_table(const std::vector<RowResult>& results) {
  std::string table;
  for (const RowResult& result : results) {
    if (!result.row.names_schedules()) continue;
    if (table.empty())
      table = fmt::format("{:<24} {:<28} {:>9} {:>8} {:>11} {:>7} {:>14} {:>8}\n", "schedules", "", "seconds", "bubble",
                          "simulated", "off", "from zb-h1's", "memory");
    for (const ScheduleResult& one : result.ours) {
      const double seconds = one.figures.seconds.median;
      table += fmt::format(
          "{:<24} {:<28} {:>9.4f} {:>7.1f}% {:>11} {:>7} {:>14} {:>8.1f}\n", result.row.name, one.schedule.text(), seconds,
          100 * one.figures.bubble, or_dash(one.predicted > 0, fmt::format("{:.4f}", one.predicted)),
          or_dash(one.predicted > 0, fmt::format("{:.1f}%", error_percent(one.predicted, seconds))),
          one.from_split_run ? fmt::format("{:.4f}", *one.from_split_run) : "-", one.figures.memory_without_state / gibibyte);
    }
    for (const RunFigures& peer : result.peers)
      table += fmt::format("{:<24} {:<28} {:>9.4f}  PyTorch {}\n", result.row.name, "", peer.seconds.median, peer.variant);
  }
  return table;
}

std::string limit_table(const std::vector<RowResult>& results) {
  std::string table;
  for (const RowResult& result : results) {
    if (!result.limit) continue;
    if (table.empty())
      table =
          "TFLOP/s of the limit's operations: forward / input gradient / weight gradient; of attention forward / backward\n";
    table += fmt::format("{:<24} products {:.0f}, attention {:.0f}:", result.row.name, result.limit->matrix_tflops,
                         result.limit->attention_tflops);
    std::string last;
    for (const LimitOp& op : result.limit_ops) {
      const std::string matrix = op.name.substr(0, op.name.find(' '));
      table += fmt::format("{}{:.0f}", matrix == last ? "/" : "  " + matrix + " ", op.flops / op.seconds * 1e-12);
      last = matrix;
    }
    table += '\n';
  }
  return table;
}

std::string scaling_table(const std::vector<RowResult>& results) {
  std::string table;
  for (const RowResult& one : results) {
    if (one.row.devices() > 1 || one.ours.empty()) continue;
    for (const RowResult& many : results) {
      const bool same = many.row.model == one.row.model && many.row.layers == one.row.layers &&
                        many.row.sequence == one.row.sequence && many.row.microbatch == one.row.microbatch;
      if (!same || many.row.devices() == 1 || many.ours.empty()) continue;
      if (table.empty()) table = fmt::format("{:<24} {:>6} {:>12} {:>14}\n", "scaling", "GPUs", "tok/s/GPU", "of one GPU's");
      const double rate = many.ours.front().figures.tokens_per_second;
      table += fmt::format("{:<24} {:>6} {:>12.0f} {:>13.1f}%\n", many.row.name, many.row.devices(), rate,
                           100 * rate / one.ours.front().figures.tokens_per_second);
    }
  }
  return table;
}

std::string all_tables(const std::vector<RowResult>& results) {
  std::string tables;
  for (const auto table : {limit_table, schedules_table, shares_table, scaling_table, throughput_table}) {
    const std::string text = table(results);
    if (!text.empty()) tables += (tables.empty() ? "" : "\n") + text;
  }
  return tables;
}

std::string results_page(const std::vector<RowResult>& results, const std::string& machine, const std::string& command) {
  const std::time_t now = std::time(nullptr);
  std::string page = fmt::format("# GPUs, {:%Y-%m-%d}\n\n{}\n\n`{}`\n", fmt::gmtime(now), machine, command);
  page +=
      "\nbf16 (rows in fp8: but for the layers' products), random weights and tokens; pipetrain keeps fp32 master weights, "
      "moments and gradients, the peer's are bf16 "
      "where dp is 1. "
      "What the columns are: bench/README.md.\n";
  page += "\n```\n" + all_tables(results) + "```\n";
  for (const RowResult& result : results) {
    page += fmt::format("\n- {}: {}", result.row.name, result.row.layout());
    for (const auto& note : result.notes) page += "; " + note;
  }
  return page + "\n";
}

}  // namespace pipetrain::bench
