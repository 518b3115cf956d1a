#include "apps/compare.hpp"

#include <fmt/format.h>

#include "apps/options/operands.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/shared_options.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/train/progress.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "files/json_value.hpp"
#include "records/compare_runs.hpp"
#include "records/metrics_reader.hpp"
#include "schedules/draw/utf8.hpp"

namespace pipetrain {
namespace {

constexpr double compared_gib = std::int64_t{1} << 30;

struct Runs {
  std::filesystem::path a, b;
  double tolerance = 0;
};

template <class Value>
Json comparison_json(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

// Compares by the criterion that the user chose.
bool are_equal(const Runs& runs, const RunComparison& found) {
  return runs.tolerance > 0 ? found.equal_within(runs.tolerance) : found.equal_to_the_bit();
}

Json comparison_json(const std::filesystem::path& file, const RunFigures& run) {
  return Json::object({{"file", schedules::valid_utf8(file.string())},
                       {"first_step", run.first_step},
                       {"last_step", run.last_step},
                       {"steps", run.steps},
                       {"last_loss", comparison_json(run.last_loss)},
                       {"seconds", comparison_json(run.seconds)},
                       {"tokens_per_second", comparison_json(run.tokens_per_second)},
                       {"tflops_per_device", comparison_json(run.tflops_per_device)},
                       {"mfu", comparison_json(run.mfu)},
                       {"bubble", comparison_json(run.bubble)},
                       {"memory_bytes", comparison_json(run.memory_bytes)}});
}

Json comparison_json(const LargestDifference& largest) {
  return Json::object({{"relative", largest.relative}, {"step", largest.step > 0 ? Json(largest.step) : Json()}});
}

void print_comparison_json(const Runs& runs, const RunComparison& found) {
  Json first;
  if (found.first)
    first = Json::object({{"step", found.first->step},
                          {"value", found.first->value},
                          {"a", comparison_json(found.first->a)},
                          {"b", comparison_json(found.first->b)}});
  Json speed;
  if (found.a.tokens_per_second.value_or(0) > 0 && found.b.tokens_per_second)
    speed = *found.b.tokens_per_second / *found.a.tokens_per_second;
  const Json largest = Json::object({{"loss", comparison_json(found.loss)},
                                     {"grad_norm", comparison_json(found.grad_norm)},
                                     {"lr", comparison_json(found.lr)}});
  const Json object = Json::object({
      {"a", comparison_json(runs.a, found.a)},
      {"b", comparison_json(runs.b, found.b)},
      {"common_steps", found.common_steps},
      {"equal_to_the_bit", found.equal_to_the_bit()},
      {"tolerance", runs.tolerance},
      {"equal", are_equal(runs, found)},
      {"first_difference", first},
      {"largest_difference", largest},
      {"speed_of_b", speed},
  });
  fmt::print("{}\n", object.dump({.indent = 2, .order = JsonOrder::as_added}));
}

std::string shown(std::optional<double> value, double scale, const char* format, const char* unit = "") {
  return value ? fmt::format(fmt::runtime(format), *value * scale) + unit : "-";
}

void print_row(const std::string& name, const std::string& a, const std::string& b, const std::string& ratio = "") {
  fmt::print("{:<22} {:>24} {:>24}{}\n", name, a, b, ratio.empty() ? "" : "  " + ratio);
}

std::string ratio(std::optional<double> a, std::optional<double> b) {
  return a && b && *a > 0 ? fmt::format("x {:.3f}", *b / *a) : "";
}

// Returns the end of a long name.
std::string run_name(const std::filesystem::path& file) {
  const std::string name = one_line(file.string());
  return name.size() <= 24 ? name : "..." + name.substr(name.size() - 21);
}

std::string steps_of(const RunFigures& run) { return fmt::format("{}-{}", run.first_step, run.last_step); }

void print_figures(const Runs& runs, const RunComparison& found) {
  const RunFigures &a = found.a, &b = found.b;
  print_row("", run_name(runs.a), run_name(runs.b), "B of A");
  print_row("steps", steps_of(a), steps_of(b));
  print_row("last loss", shown(a.last_loss, 1, "{:.6g}"), shown(b.last_loss, 1, "{:.6g}"));
  print_row("tokens/s", shown(a.tokens_per_second, 1, "{:.1f}"), shown(b.tokens_per_second, 1, "{:.1f}"),
            ratio(a.tokens_per_second, b.tokens_per_second));
  print_row("seconds a step", shown(a.seconds, 1, "{:.4g}"), shown(b.seconds, 1, "{:.4g}"), ratio(a.seconds, b.seconds));
  print_row("TFLOP/s a device", shown(a.tflops_per_device, 1, "{:.4g}"), shown(b.tflops_per_device, 1, "{:.4g}"),
            ratio(a.tflops_per_device, b.tflops_per_device));
  if (a.mfu || b.mfu)
    print_row("MFU", shown(a.mfu, 100, "{:.1f}", " %"), shown(b.mfu, 100, "{:.1f}", " %"), ratio(a.mfu, b.mfu));
  print_row("bubble", shown(a.bubble, 100, "{:.1f}", " %"), shown(b.bubble, 100, "{:.1f}", " %"));
  const auto bytes = [](const RunFigures& run) {
    return run.memory_bytes ? std::optional(static_cast<double>(*run.memory_bytes)) : std::nullopt;
  };
  print_row("fullest device", shown(bytes(a), 1 / compared_gib, "{:.3f}", " GiB"),
            shown(bytes(b), 1 / compared_gib, "{:.3f}", " GiB"), ratio(bytes(a), bytes(b)));
}

void print_largest(const char* name, const LargestDifference& largest) {
  if (largest.step == 0) {
    fmt::print("{:<22} equal to the bit\n", name);
  } else {
    fmt::print("{:<22} differs by at most {:.3g} of its value, in step {}\n", name, largest.relative, largest.step);
  }
}

void print_comparison_table(const Runs& runs, const RunComparison& found) {
  print_figures(runs, found);
  fmt::print("\nover {}:\n", counted(found.common_steps, "common step"));
  print_largest("loss", found.loss);
  print_largest("gradient norm", found.grad_norm);
  print_largest("learning rate", found.lr);
  if (!found.same_work) fmt::print("tokens or skipped steps differ\n");
  if (found.first) {
    fmt::print("first differing step   {}: {} {} and {}\n", found.first->step, found.first->value,
               shown(found.first->a, 1, "{}"), shown(found.first->b, 1, "{}"));
  } else {
    fmt::print("first differing step   none: equal to the bit\n");
  }
}

std::vector<StepMetrics> read_compared_run(const std::string& operand, std::filesystem::path& file) {
  file = find_metrics_file(operand);
  return read_metrics(file);
}

}  // namespace

const OptionRows& compare_option_table() {
  static const OptionRows table = joined_rows({
      {{"What counts", "tolerance", "X", "losses, norms and rates that differ by at most this share of their value are equal",
        NumberRange{}, "0: to the bit"},
       {"Results", "json", "", "print one JSON object", OnOff{}, "off"}},
      general_options(),
  });
  return table;
}

std::string compare_help() {
  return "pipetrain compare A B OPTIONS\n"
         "Compares two runs by their metrics: what they computed, and how fast. A and B are files that --metrics wrote, or\n"
         "folders that hold one.\n"
         "\n"
         "  pipetrain compare before.jsonl after.jsonl --tolerance 1e-6\n"
         "\n" +
         format_options(compare_option_table()) +
         "\n"
         "Compared are loss, gradient norm, learning rate, tokens and skipped steps, in the steps that both runs have; speeds\n"
         "are medians without the first step. Exit status: 0 all of that is equal, 1 it is not, 2 the command line or a file is\n"
         "wrong, or the runs have no step in common.\n";
}

int run_compare(const std::vector<std::string>& given_arguments, const Environment& environment) {
  std::vector<std::string> arguments = given_arguments, notes;
  const std::vector<std::string> operands = take_operands(compare_option_table(), arguments);
  const OptionValues values(compare_option_table(), gather_options(compare_option_table(), arguments, environment, notes));
  if (operands.size() != 2)
    throw Error(ErrorKind::input, fmt::format("compare: takes two runs, and {} given; write pipetrain compare A B",
                                              operands.size() == 1 ? "1 is" : fmt::format("{} are", operands.size())));
  Runs runs;
  runs.tolerance = values.number("tolerance").value_or(0);
  const auto a = read_compared_run(operands[0], runs.a), b = read_compared_run(operands[1], runs.b);
  const RunComparison found = compare_runs(a, b);
  if (found.common_steps == 0)
    throw Error(
        ErrorKind::input,
        fmt::format("compare: {} has steps {} and {} has {}, none of which is the same; give two runs with common steps",
                    runs.a.string(), steps_of(found.a), runs.b.string(), steps_of(found.b)));
  values.on_off("json").value_or(false) ? print_comparison_json(runs, found) : print_comparison_table(runs, found);
  for (const auto& note : notes) print_note(note);
  return are_equal(runs, found) ? 0 : 1;
}

}  // namespace pipetrain
