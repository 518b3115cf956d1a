#include "apps/output/stderr_lines.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "apps/output/launch_report.hpp"
#include "apps/signals/signals.hpp"
#include "core/text/escape.hpp"
#include "schedules/draw/utf8.hpp"

namespace pipetrain {

namespace {

constexpr std::size_t longest_word = 200, longest_line = 1000;
constexpr int pipe_look_ms = 50, pipe_patience_ms = 2000;
std::string line_begin;

// Returns the bytes of the character that the text begins with; 0 for an invalid one, or one that controls a terminal.
std::size_t printable_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const bool controls = first < 0x20 || first == 0x7f || (first == 0xc2 && text.size() > 1 && (text[1] & 0xe0) == 0x80);
  return controls ? 0 : schedules::utf8_size(text);
}

std::string escaped(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const std::size_t size = printable_size(text);
    safe += size > 0 ? std::string(text.substr(0, size)) : escape_of(text.front());
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return safe;
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

// Returns true if stderr has room for as many bytes as a pipe takes atomically.
bool is_ready(int wait_ms) {
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  return ::poll(&ready, 1, wait_ms) > 0;
}

// Waits for a reader, unless it has delayed a stopping run for long already.
bool wait_until_ready() {
  static std::atomic<int> waited{0};
  while (!is_ready(waited < pipe_patience_ms ? pipe_look_ms : 0)) {
    if (waited >= pipe_patience_ms) return false;
    if (stop_signal() != 0) waited += pipe_look_ms;
  }
  return true;
}

}  // namespace

std::string shortened(std::string_view text, std::size_t most) {
  if (static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character)) <= most) return std::string(text);
  const std::size_t head = most * 3 / 4, tail = most - head;
  std::size_t begin = 0, end = text.size();
  for (std::size_t seen = 0; seen <= head; ++begin) seen += begins_character(text[begin]);
  for (std::size_t seen = 0; seen < tail; seen += begins_character(text[end])) --end;
  return std::string(text.substr(0, begin - 1)) + "..." + std::string(text.substr(end));
}

std::string one_line(std::string_view text) {
  const std::string safe = escaped(text);
  std::string line;
  for (std::size_t at = 0; at <= safe.size();) {
    const std::size_t end = std::min(safe.find(' ', at), safe.size());
    line += shortened(std::string_view(safe).substr(at, end - at), longest_word);
    if (end < safe.size()) line += ' ';
    at = end + 1;
  }
  return shortened(line, longest_line);
}

void set_line_begin(std::string begin) { line_begin = std::move(begin); }

void print_error(std::string_view text, ErrorKind kind) {
  if (report_failure(kind, text)) return;
  write_to_stderr(one_line(fmt::format("pipetrain: error: {}{}", line_begin, text)) + "\n");
}

void print_note(std::string_view line) { write_to_stderr(one_line(line_begin + std::string(line)) + "\n"); }

void print_over_progress(std::string_view line) {
  const std::string text =
      fmt::format("{}{}\n", ::isatty(STDERR_FILENO) != 0 ? "\r\x1b[K" : "", one_line(line_begin + std::string(line)));
  if (is_ready(pipe_look_ms))
    static_cast<void>(!::write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF)));
}

void write_to_stderr(std::string_view text) {
  while (!text.empty() && wait_until_ready()) {
    const ssize_t wrote = ::write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (wrote < 0 && errno != EINTR && errno != EAGAIN) return;
    if (wrote > 0) text.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

}  // namespace pipetrain
