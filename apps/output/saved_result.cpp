#include "apps/output/saved_result.hpp"

#include <fmt/format.h>
#include <stdio_ext.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "apps/output/stderr_lines.hpp"

namespace pipetrain {

void print_saved_result(const std::string& line, const std::filesystem::path& place) {
  errno = 0;
  if (std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fflush(stdout) == 0) return;
  const int reason = errno;
  ::__fpurge(stdout);  // otherwise the program would try again at its end, and fail
  std::clearerr(stdout);
  if (reason == EPIPE) return;  // the reader has gone
  print_note(fmt::format("stdout: the line of the result cannot be written{}; the result is whole in {}",
                         reason != 0 ? fmt::format(" ({})", std::strerror(reason)) : "", place.string()));
}

}  // namespace pipetrain
