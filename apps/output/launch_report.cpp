#include "apps/output/launch_report.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>

#include "apps/output/stderr_lines.hpp"
#include "core/parsing.hpp"

namespace pipetrain {

namespace {

constexpr std::string_view joined_line = "joined", left_line = "left", member_begin = "member ", wanted_begin = "wanted ",
                           failed_begin = "failed ";
std::atomic<int> pipe_end{-1};

bool is_pipe(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode);
}

// A pipe takes a line of this length atomically, so that lines of several threads stay whole.
std::string ended(std::string_view line) { return std::string(line.substr(0, PIPE_BUF - 1)) + "\n"; }

bool write_line(const std::string& text) {
  const int to = pipe_end;
  if (to < 0) return false;
  ssize_t wrote = -1;
  do {
    wrote = ::write(to, text.data(), text.size());
  } while (wrote < 0 && errno == EINTR);
  return wrote == static_cast<ssize_t>(text.size());
}

}  // namespace

void connect_launch_report(const std::map<std::string, std::string>& environment) {
  const auto variable = environment.find(launch_report_variable);
  if (variable == environment.end()) return;
  int descriptor = -1;
  const std::string& text = variable->second;
  std::from_chars(text.data(), text.data() + text.size(), descriptor);
  if (descriptor <= STDERR_FILENO || !is_pipe(descriptor)) return;
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  pipe_end = descriptor;
}

void report_joined() { write_line(ended(joined_line)); }

void report_left() { write_line(ended(left_line)); }

void report_member(int membership, std::string_view door) {
  write_line(ended(fmt::format("{}{} {}", member_begin, membership, door)));
}

bool ask_for_processes(int count) { return write_line(ended(fmt::format("{}{}", wanted_begin, count))); }

std::string failure_report(ErrorKind kind, std::string_view line) {
  return ended(fmt::format("{}{} {}", failed_begin, static_cast<int>(kind), one_line(line)));
}

bool report_failure(ErrorKind kind, std::string_view line) { return write_line(failure_report(kind, line)); }

std::optional<LaunchReport> parse_launch_report(std::string_view line) {
  if (line == joined_line) return LaunchReport{};
  if (line == left_line) return LaunchReport{.failure = {}, .line = {}, .left = true};
  if (line.starts_with(wanted_begin)) {
    const auto wanted = number_from<int>(line.substr(wanted_begin.size()));
    return wanted && *wanted > 0 ? std::optional(LaunchReport{.failure = {}, .line = {}, .wanted = *wanted}) : std::nullopt;
  }
  if (line.starts_with(member_begin)) {
    line.remove_prefix(member_begin.size());
    const std::size_t end = std::min(line.find(' '), line.size());
    const auto membership = number_from<int>(line.substr(0, end));
    if (!membership || *membership < 1 || end + 1 >= line.size()) return std::nullopt;
    return LaunchReport{.failure = {}, .line = {}, .membership = *membership, .door = std::string(line.substr(end + 1))};
  }
  if (!line.starts_with(failed_begin)) return std::nullopt;
  line.remove_prefix(failed_begin.size());
  int kind = -1;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), kind);
  if (error != std::errc() || end == line.data() + line.size() || *end != ' ' || kind < 0 ||
      kind > static_cast<int>(ErrorKind::internal))
    return std::nullopt;
  return LaunchReport{.failure = static_cast<ErrorKind>(kind), .line = std::string(end + 1, line.data() + line.size())};
}

}  // namespace pipetrain
