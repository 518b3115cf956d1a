#include "apps/watch/watch.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "apps/options/operands.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/shared_options.hpp"
#include "apps/output/output_lock.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/train/progress.hpp"
#include "core/error.hpp"
#include "records/metrics_reader.hpp"

namespace pipetrain {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t first_plain_lines = 10;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Decides as setlocale() would; a UTF-8 locale shows the finer curve.
Glyphs glyphs_of_locale() {
  std::string locale = variable("LC_ALL");
  if (locale.empty()) locale = variable("LC_CTYPE");
  if (locale.empty()) locale = variable("LANG");
  std::transform(locale.begin(), locale.end(), locale.begin(), [](unsigned char c) { return std::tolower(c); });
  return locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos ? Glyphs::braille : Glyphs::ascii;
}

bool is_terminal() { return ::isatty(STDOUT_FILENO) != 0 && variable("TERM") != "dumb" && !variable("TERM").empty(); }

WatchView view_of_stdout(bool terminal) {
  WatchView view;
  view.glyphs = glyphs_of_locale();
  view.color = terminal && variable("NO_COLOR").empty();
  winsize size{};
  if (terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    view.columns = size.ws_col - 1;  // the last column stays free, because writing there makes some terminals wrap
    view.rows = size.ws_row;
  }
  return view;
}

StepProgress watched_progress(const StepMetrics& step) {
  StepProgress progress;
  progress.step = step.step;
  progress.total = step.total_steps.value_or(0);
  progress.loss = step.loss;
  progress.grad_norm = step.grad_norm;
  progress.loss_scale = step.loss_scale;
  progress.lr = step.lr.value_or(0);
  progress.tokens_per_second = step.tokens_per_second.value_or(0);
  progress.bubble = step.bubble;
  progress.input_wait = input_wait_share(step);
  progress.tflops_per_device = step.tflops_per_device;
  progress.mfu = step.mfu;
  for (const auto& bytes : step.memory_bytes) progress.memory_bytes = std::max(progress.memory_bytes, bytes);
  progress.skipped = step.skipped;
  return progress;
}

// Returns false if the reader of stdout has gone; the command then ends.
bool flushed() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

// A picture that replaces the previous one; the screen above it stays.
class Screen {
 public:
  bool draw(const std::vector<std::string>& lines) {
    std::string text = lines_ > 0 ? fmt::format("\x1b[{}A\r", lines_) : "\r";
    for (const auto& line : lines) text += line + "\x1b[K\n";
    fmt::print("{}\x1b[J", text);
    lines_ = lines.size();
    return flushed();
  }

 private:
  std::size_t lines_ = 0;
};

// A note of an earlier failure may lie there until the run that follows has begun to write.
std::optional<FailureNote> failure_of(const MetricsReader& reader) {
  auto note = read_failure_note(reader.file());
  return note && (reader.steps().empty() || reader.steps().back().step < note->step) ? note : std::nullopt;
}

WatchedRun run_of(const MetricsReader& reader) { return {reader.steps(), reader.evaluations(), failure_of(reader)}; }

// Looks for the writer only now and then, because looking takes the lock for an instant.
class WriterWatch {
 public:
  explicit WriterWatch(fs::path file) : file_(std::move(file)) {}

  bool is_there(double quiet_seconds) {
    if (quiet_seconds < pause) {
      there_ = true;
      next_ = pause;
    } else if (quiet_seconds >= next_) {
      there_ = is_file_in_use(file_);
      next_ = quiet_seconds + pause;
    }
    return there_;
  }

 private:
  static constexpr double pause = 5;  // seconds
  fs::path file_;
  double next_ = pause;
  bool there_ = true;
};

void watch_on_terminal(MetricsReader& reader, Clock::duration interval) {
  Screen screen;
  WriterWatch writer(reader.file());
  auto changed = Clock::now();
  for (;;) {
    if (reader.read()) changed = Clock::now();
    WatchedRun run = run_of(reader);
    run.quiet_seconds = std::chrono::duration<double>(Clock::now() - changed).count();
    run.has_writer = writer.is_there(run.quiet_seconds);
    if (!screen.draw(run.steps.empty() ? std::vector<std::string>{"no step is done yet"}
                                       : watch_lines(run, view_of_stdout(true))))
      return;
    std::this_thread::sleep_for(interval);
  }
}

// Prints one line a step, beginning with the last few.
void watch_as_lines(MetricsReader& reader, Clock::duration interval) {
  std::int64_t told = 0;
  bool told_failure = false;
  for (bool first = true;; first = false) {
    reader.read();
    const auto& steps = reader.steps();
    if (steps.empty() || steps.back().step < told) told = 0;  // the file began anew
    if (first && steps.size() > first_plain_lines) told = steps[steps.size() - first_plain_lines - 1].step;
    auto step = std::partition_point(steps.begin(), steps.end(), [&](const StepMetrics& each) { return each.step <= told; });
    for (; step != steps.end(); ++step) {
      fmt::print("{}\n", plain_line(watched_progress(*step)));
      told = step->step;
    }
    const auto failure = failure_of(reader);
    if (failure && !told_failure) fmt::print("{}\n", failure_line(*failure));
    told_failure = failure.has_value();
    if (!flushed()) return;
    std::this_thread::sleep_for(interval);
  }
}

void show_once(MetricsReader& reader) {
  reader.read();
  if (reader.steps().empty()) throw Error(ErrorKind::input, "watch: no step is done yet; leave --once out to wait for one");
  WatchedRun run = run_of(reader);
  run.has_writer = is_file_in_use(reader.file());
  for (const auto& line : watch_lines(run, view_of_stdout(is_terminal()))) fmt::print("{}\n", line);
}

}  // namespace

const OptionRows& watch_option_table() {
  static const OptionRows table = joined_rows({
      {{"Picture", "once", "", "show the run as it is now, and end", OnOff{}, "off"},
       {"Picture", "interval", "SECONDS", "seconds between two readings of the file", NumberRange::from_to(0.01, 3600), "1"}},
      general_options(),
  });
  return table;
}

std::string watch_help() {
  return "pipetrain watch FILE|DIR OPTIONS\n"
         "Shows a run in progress: its loss as a curve, its speed, and what each stage waits for and holds. FILE is what\n"
         "--metrics writes, DIR a folder that holds one such file. Any number may watch, without any effect on the run.\n"
         "\n"
         "  pipetrain --data corpus.jsonl --metrics run.jsonl &\n"
         "  pipetrain watch run.jsonl\n"
         "\n" +
         format_options(watch_option_table()) +
         "\n"
         "On a terminal the picture is redrawn again and again, as large as the window; elsewhere there is one plain line a step, from\n"
         "the last ten on. Exit status: 0 with --once, 2 the command line or the file is wrong, 130 or 143 ended by Ctrl-C or\n"
         "SIGTERM, which is how watching ends.\n";
}

int run_watch(const std::vector<std::string>& given_arguments, const Environment& environment) {
  std::vector<std::string> arguments = given_arguments, notes;
  const std::vector<std::string> operands = take_operands(watch_option_table(), arguments);
  const OptionValues values(watch_option_table(), gather_options(watch_option_table(), arguments, environment, notes));
  if (operands.size() != 1)
    throw Error(
        ErrorKind::input,
        fmt::format("watch: takes one file or folder, and {} are given; write pipetrain watch run.jsonl", operands.size()));
  const double seconds = values.number("interval").value_or(1);
  const auto interval = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const bool once = values.on_off("once").value_or(false);
  MetricsReader reader(find_metrics_file(operands[0]));
  for (const auto& note : notes) print_note(note);
  if (once) {
    show_once(reader);
  } else if (is_terminal()) {
    watch_on_terminal(reader, interval);
  } else {
    watch_as_lines(reader, interval);
  }
  return 0;
}

}  // namespace pipetrain
