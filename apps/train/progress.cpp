#include "apps/train/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "apps/output/stderr_lines.hpp"

namespace pipetrain {

namespace {

constexpr int bar_columns = 20;

std::string shown_loss(std::optional<double> loss) { return loss ? fmt::format("loss {:.4f}", *loss) : "no label"; }

// The most important fields come first, because a narrow terminal loses the last ones.
std::vector<std::string> fields(const StepProgress& progress) {
  std::vector<std::string> parts;
  parts.push_back(progress.total > 0 ? fmt::format("step {}/{}", progress.step, progress.total)
                                     : fmt::format("step {}", progress.step));
  if (progress.skipped) parts.push_back("skipped");
  parts.push_back(shown_loss(progress.loss));
  if (progress.mtp_loss) parts.push_back(fmt::format("mtp loss {:.4f}", *progress.mtp_loss));
  if (progress.margin) parts.push_back(fmt::format("margin {:.3f}", *progress.margin));
  if (progress.accuracy) parts.push_back(fmt::format("accuracy {:.1f} %", 100 * *progress.accuracy));
  parts.push_back(progress.grad_norm ? fmt::format("grad norm {:.3f}", *progress.grad_norm) : "grad norm overflows");
  parts.push_back(fmt::format("lr {:.2e}", progress.lr));
  parts.push_back(fmt::format("{} tokens/s", format_thousands(std::llround(progress.tokens_per_second))));
  if (progress.bubble) parts.push_back(fmt::format("bubble {:.1f} %", 100 * *progress.bubble));
  if (progress.input_wait) parts.push_back(fmt::format("input {:.1f} %", 100 * *progress.input_wait));
  if (progress.eta_seconds) parts.push_back("ETA " + format_duration(*progress.eta_seconds));
  if (progress.tflops_per_device) parts.push_back(fmt::format("{:.4g} TFLOP/s", *progress.tflops_per_device));
  if (progress.mfu) parts.push_back(fmt::format("MFU {:.1f} %", 100 * *progress.mfu));
  if (progress.memory_bytes) parts.push_back("memory " + format_bytes(*progress.memory_bytes));
  if (progress.loss_scale) parts.push_back(fmt::format("loss scale {}", *progress.loss_scale));
  return parts;
}

// Shorter forms of the fields, so that all of them fit the usual 80 columns.
std::vector<std::string> short_fields(const StepProgress& progress) {
  std::vector<std::string> parts;
  parts.push_back(progress.total > 0 ? fmt::format("{}/{}", progress.step, progress.total) : fmt::format("{}", progress.step));
  if (progress.skipped) parts.push_back("skipped");
  parts.push_back(shown_loss(progress.loss));
  if (progress.mtp_loss) parts.push_back(fmt::format("mtp {:.3f}", *progress.mtp_loss));
  if (progress.margin) parts.push_back(fmt::format("margin {:.2f}", *progress.margin));
  parts.push_back(progress.grad_norm ? fmt::format("norm {:.3f}", *progress.grad_norm) : "norm overflows");
  parts.push_back(fmt::format("lr {:.1e}", progress.lr));
  parts.push_back(fmt::format("{} tok/s", format_thousands(std::llround(progress.tokens_per_second))));
  if (progress.bubble) parts.push_back(fmt::format("bubble {:.0f}%", 100 * *progress.bubble));
  if (progress.eta_seconds) parts.push_back("ETA " + format_duration(*progress.eta_seconds));
  if (progress.mfu) {
    parts.push_back(fmt::format("MFU {:.0f}%", 100 * *progress.mfu));
  } else if (progress.tflops_per_device) {
    parts.push_back(fmt::format("{:.3g} TF/s", *progress.tflops_per_device));
  }
  if (progress.memory_bytes) parts.push_back(format_bytes(*progress.memory_bytes));
  return parts;
}

std::string progress_bar(const StepProgress& progress) {
  const double share = std::clamp(static_cast<double>(progress.step) / static_cast<double>(progress.total), 0.0, 1.0);
  const int filled = static_cast<int>(share * bar_columns);
  return fmt::format("[{:=<{}}{:{}}]", "", filled, "", bar_columns - filled);
}

}  // namespace

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 3.6e8) return "?";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string format_thousands(std::int64_t value) {
  std::string digits = fmt::format("{}", value);
  const std::ptrdiff_t first = value < 0 ? 1 : 0;
  for (std::ptrdiff_t at = std::ssize(digits) - 3; at > first; at -= 3) digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string format_bytes(std::int64_t bytes) {
  constexpr double mib = 1 << 20, gib = 1 << 30;
  const auto value = static_cast<double>(bytes);
  return value >= gib ? fmt::format("{:.1f} GiB", value / gib) : fmt::format("{:.1f} MiB", value / mib);
}

std::string plain_line(const StepProgress& progress) { return fmt::format("{}", fmt::join(fields(progress), "  ")); }

std::string bar_line(const StepProgress& progress, int width) {
  const auto room = static_cast<std::size_t>(std::max(width, 0));
  const std::string plain = plain_line(progress);
  if (progress.total > 0 && bar_columns + 3 + plain.size() <= room) return progress_bar(progress) + " " + plain;
  if (plain.size() <= room) return plain;
  std::string line;
  for (const std::string& field : short_fields(progress)) {
    const std::size_t longer = line.size() + (line.empty() ? 0 : 1) + field.size();
    if (longer > room) break;
    if (!line.empty()) line += ' ';
    line += field;
  }
  return line;
}

Progress Progress::on_stderr(std::int64_t log_interval) {
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  Style style;
  style.terminal = ::isatty(STDERR_FILENO) != 0 && term && std::string_view(term) != "dumb";
  style.color = style.terminal && !(no_color && *no_color);
  style.width = [] {
    winsize size{};
    return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? static_cast<int>(size.ws_col) : 80;
  };
  style.log_interval = log_interval;
  return Progress(write_to_stderr, std::move(style));
}

void Progress::step(const StepProgress& progress) {
  last_ = progress;
  if (style_.terminal) return draw();
  const bool shown = progress.step == 1 || progress.step == progress.total || progress.step % style_.log_interval == 0;
  if (shown) write_(plain_line(progress) + "\n");
}

void Progress::note(std::string_view text) {
  erase();
  write_(fmt::format("{}\n", text));
  if (style_.terminal && last_) draw();
}

void Progress::finish() {
  if (drawn_) write_("\n");
  drawn_ = false;
  last_.reset();
}

// The last column stays free, because writing there makes some terminals wrap.
void Progress::draw() {
  const std::string line = bar_line(*last_, style_.width() - 1);
  write_(style_.color ? fmt::format("\r\x1b[36m{}\x1b[0m\x1b[K", line) : fmt::format("\r{}\x1b[K", line));
  drawn_ = true;
}

void Progress::erase() {
  if (drawn_) write_("\r\x1b[K");
  drawn_ = false;
}

}  // namespace pipetrain
