#include "apps/compare.hpp"

#include <fmt/format.h>

#include <map>

#include "apps/options/operands.hpp"
#include "apps/options/option_files.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/shared_options.hpp"
#include "apps/output/output_files.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/train/progress.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "files/json_value.hpp"
#include "records/compare_runs.hpp"
#include "records/comparison_lines.hpp"
#include "records/comparison_page.hpp"
#include "records/metric_curves.hpp"
#include "records/metrics_reader.hpp"
#include "schedules/draw/utf8.hpp"

namespace pipetrain {
namespace {

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

void print_row(const std::vector<std::string>& cells) {
  fmt::print("{:<22} {:>24} {:>24}{}\n", cells[0], cells[1], cells[2], cells[3].empty() ? "" : "  " + cells[3]);
}

std::string ratio(std::optional<double> a, std::optional<double> b) {
  return a && b && *a > 0 ? fmt::format("x {:.3f}", *b / *a) : "";
}

// Returns the end of a long name.
std::string run_name(const std::filesystem::path& file) {
  const std::string name = one_line(file.string());
  return name.size() <= 24 ? name : "..." + name.substr(name.size() - 21);
}

void print_figures(const Runs& runs, const RunComparison& found) {
  const RunFigures &a = found.a, &b = found.b;
  print_row({"", run_name(runs.a), run_name(runs.b), "B of A"});
  const auto bytes = [](const RunFigures& run) {
    return run.memory_bytes ? std::optional(static_cast<double>(*run.memory_bytes)) : std::nullopt;
  };
  const std::map<std::string, std::string> ratios = {{"tokens/s", ratio(a.tokens_per_second, b.tokens_per_second)},
                                                     {"time of a step", ratio(a.seconds, b.seconds)},
                                                     {"FLOP/s a device", ratio(a.tflops_per_device, b.tflops_per_device)},
                                                     {"MFU", ratio(a.mfu, b.mfu)},
                                                     {"fullest device", ratio(bytes(a), bytes(b))}};
  for (auto& row : figure_rows({a, b})) {
    const auto known = ratios.find(row.front());
    row.push_back(known == ratios.end() ? "" : known->second);
    print_row(row);
  }
}

void print_comparison_table(const Runs& runs, const RunComparison& found) {
  print_figures(runs, found);
  fmt::print("\nover {}:\n", counted(found.common_steps, "common step"));
  for (const auto& line : finding_lines(found)) fmt::print("{}\n", line);
}

struct ReadRun {
  std::filesystem::path file;
  MetricsReader metrics;
};

ReadRun read_compared_run(const std::string& operand) {
  const std::filesystem::path file = find_metrics_file(operand);
  ReadRun run{file, MetricsReader(file)};
  run.metrics.read();
  if (run.metrics.steps().empty()) read_metrics(file);  // throws what is wrong with it
  return run;
}

RunComparison compare_read(const ReadRun& a, const ReadRun& b) {
  const auto steps_of = [](const RunFigures& run) { return fmt::format("{}-{}", run.first_step, run.last_step); };
  const RunComparison found = compare_runs(a.metrics.steps(), b.metrics.steps());
  if (found.common_steps == 0)
    throw Error(
        ErrorKind::input,
        fmt::format("compare: {} has steps {} and {} has {}, none of which is the same; give two runs with common steps",
                    a.file.string(), steps_of(found.a), b.file.string(), steps_of(found.b)));
  return found;
}

void refuse_count(std::size_t operands, bool reports, bool json) {
  const std::string given = operands == 1 ? "1 is" : fmt::format("{} are", operands);
  if (operands < 2 || (operands > 2 && !reports))
    throw Error(ErrorKind::input, fmt::format("compare: takes two runs, and {} given; write pipetrain compare A B{}", given,
                                              operands > 2 ? ", or give --report FILE for a page of several" : ""));
  if (operands > most_compared_runs)
    throw Error(ErrorKind::input, fmt::format("compare: a page has colours for {} runs, and {} given; leave some out",
                                              most_compared_runs, given));
  if (operands > 2 && json)
    throw Error(ErrorKind::input, fmt::format("--json: prints two runs, and {} given; leave it out", given));
}

// Refuses a page that would replace one of the runs.
void refuse_run_as_report(const OptionValues& values, const std::filesystem::path& report, const std::vector<ReadRun>& runs) {
  std::error_code none;
  for (const ReadRun& run : runs)
    if (std::filesystem::equivalent(report, run.file, none))
      values.fail("report", fmt::format("{} is read as a run; give the page its own path", run.file.string()));
}

void write_comparison_file(const std::filesystem::path& report, const std::vector<ReadRun>& runs,
                           const std::vector<RunComparison>& found) {
  ComparisonPage page;
  std::vector<MetricCurves> curves(runs.size());
  std::vector<const MetricCurves*> drawn;
  std::vector<RunFigures> figures = {found.front().a};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    page.runs.push_back(one_line(runs[i].file.string()));
    for (const StepMetrics& step : runs[i].metrics.steps()) curves[i].add(step);
    for (const EvaluationMetrics& evaluation : runs[i].metrics.evaluations()) curves[i].add(evaluation);
    drawn.push_back(&curves[i]);
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    figures.push_back(found[i].b);
    for (const auto& line : finding_lines(found[i]))
      page.findings.push_back(found.size() > 1 ? page.runs[i + 1] + ": " + line : line);
  }
  page.figures = figure_rows(figures);
  page.charts = charts_of(drawn);
  OutputFiles files;
  files.add("report", report, [&](std::ostream& out) { write_comparison(out, page); });
  files.put_in_place();
}

}  // namespace

const OptionRows& compare_option_table() {
  static const OptionRows table = joined_rows({
      {{"What counts", "tolerance", "X", "losses, norms and rates that differ by at most this share of their value are equal",
        NumberRange{}, "0: to the bit"},
       {"Results", "json", "", "print one JSON object", OnOff{}, "off"},
       {"Results", "report", "FILE", "one HTML page with the curves of all runs over each other, and their figures"}},
      general_options(),
  });
  return table;
}

std::string compare_help() {
  return "pipetrain compare A B [C ...] OPTIONS\n"
         "Compares two runs by their metrics: what they computed, and how fast. A and B are files that --metrics wrote, or\n"
         "folders that hold one. With --report there may be up to eight runs; each is compared with A.\n"
         "\n"
         "  pipetrain compare before.jsonl after.jsonl --tolerance 1e-6\n"
         "  pipetrain compare a.jsonl b.jsonl c.jsonl --report runs.html\n"
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
  const auto report = output_file(values, "report");
  const bool json = values.on_off("json").value_or(false);
  refuse_count(operands.size(), report.has_value(), json);
  std::vector<ReadRun> read;
  for (const auto& operand : operands) read.push_back(read_compared_run(operand));
  if (report) refuse_run_as_report(values, *report, read);
  std::vector<RunComparison> found;
  for (std::size_t i = 1; i < read.size(); ++i) found.push_back(compare_read(read.front(), read[i]));
  if (report) write_comparison_file(*report, read, found);
  bool equal = true;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Runs runs{read.front().file, read[i + 1].file, values.number("tolerance").value_or(0)};
    if (i > 0) fmt::print("\n");
    json ? print_comparison_json(runs, found[i]) : print_comparison_table(runs, found[i]);
    equal = equal && are_equal(runs, found[i]);
  }
  for (const auto& note : notes) print_note(note);
  return equal ? 0 : 1;
}

}  // namespace pipetrain
