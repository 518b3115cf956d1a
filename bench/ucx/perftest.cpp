#include "bench/ucx/perftest.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace pipetrain::bench {
namespace {

// Runs the program with its stdout at `out`; its stderr is discarded.
pid_t start(const std::vector<std::string>& arguments, int out) {
  const pid_t child = fork();
  if (child != 0) return child;
  const int nowhere = open("/dev/null", O_RDWR);
  dup2(out < 0 ? nowhere : out, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  std::vector<char*> words;
  for (const auto& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  _exit(127);
}

std::string read_all(int from) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t size; (size = read(from, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(size));
  return text;
}

// Parses the last line of `ucx_perftest -f`: iterations, percentile, average and overall microseconds, average and
// overall MiB/s, rates.
std::optional<PerftestResult> parse(const std::string& text) {
  std::istringstream lines(text);
  std::string line, last;
  while (std::getline(lines, line)) {
    if (!line.empty()) last = line;
  }
  std::istringstream numbers(last);
  double iterations, percentile, average, overall, average_rate, overall_rate;
  if (!(numbers >> iterations >> percentile >> average >> overall >> average_rate >> overall_rate)) return std::nullopt;
  return PerftestResult{overall * 1e-6, overall_rate * 1048576};
}

}  // namespace

std::optional<PerftestResult> run_perftest(const char* test, std::size_t bytes, int messages, std::uint16_t port) {
  const std::string at = std::to_string(port);
  const pid_t server = start({"ucx_perftest", "-p", at}, -1);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // until it listens
  int out[2];
  if (pipe(out) != 0) return std::nullopt;
  const pid_t client = start({"ucx_perftest", "-f", "-p", at, "-t", test, "-s", std::to_string(bytes), "-n",
                              std::to_string(messages), "-w", "20", "127.0.0.1"},
                             out[1]);
  close(out[1]);
  const std::string text = read_all(out[0]);
  close(out[0]);
  waitpid(client, nullptr, 0);
  kill(server, SIGTERM);  // it ends by itself if the client got through
  waitpid(server, nullptr, 0);
  return parse(text);
}

}  // namespace pipetrain::bench
