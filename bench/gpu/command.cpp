#include "bench/gpu/command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "core/error.hpp"

namespace pipetrain::bench {
namespace {

std::filesystem::path error_path(const Command& command) {
  auto path = command.output;
  return path += ".err";
}

// Prepares everything that may allocate, before the fork.
class Prepared {
 public:
  explicit Prepared(const Command& command)
      : arguments_(command.arguments), output_(command.output), error_(error_path(command)) {
    for (char** variable = environ; *variable; ++variable) {
      const std::string text = *variable;
      const bool hidden = !command.without.empty() && text.starts_with(command.without);
      if (!hidden && command.environment.count(text.substr(0, text.find('='))) == 0) environment_.push_back(text);
    }
    for (const auto& [name, value] : command.environment) environment_.push_back(name + "=" + value);
    for (auto& argument : arguments_) argument_pointers_.push_back(argument.data());
    for (auto& variable : environment_) environment_pointers_.push_back(variable.data());
    argument_pointers_.push_back(nullptr);
    environment_pointers_.push_back(nullptr);
  }

  [[noreturn]] void become() {
    setpgid(0, 0);                     // so that it can be ended with its children
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // if this program is killed, no GPU may stay in use
    if (getppid() != parent_) _exit(126);
    const int in = open("/dev/null", O_RDONLY);
    const int out = open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const int error = open(error_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (in < 0 || out < 0 || error < 0) _exit(126);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(error, STDERR_FILENO);
    execvpe(argument_pointers_[0], argument_pointers_.data(), environment_pointers_.data());
    _exit(127);
  }

 private:
  std::vector<std::string> arguments_, environment_;
  std::vector<char*> argument_pointers_, environment_pointers_;
  std::string output_, error_;
  pid_t parent_ = getpid();
};

int shell_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// Returns true if the child ended before the deadline.
bool wait_until(pid_t child, std::chrono::steady_clock::time_point deadline, int& status) {
  for (;;) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return true;
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

Ended run_command(const Command& command) {
  Prepared prepared(command);
  const pid_t child = fork();
  if (child < 0) throw Error(ErrorKind::unavailable, "bench gpu: no process can be made for " + command.arguments.front());
  if (child == 0) prepared.become();
  setpgid(child, child);
  const auto soon = [](double seconds) {
    return std::chrono::steady_clock::now() +
           std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
  };
  int status = 0;
  if (wait_until(child, soon(command.seconds), status)) {
    kill(-child, SIGTERM);  // ends processes that it left running
    return {true, shell_status(status)};
  }
  kill(-child, SIGTERM);
  if (!wait_until(child, soon(15), status)) {
    kill(-child, SIGKILL);
    waitpid(child, &status, 0);
  }
  kill(-child, SIGKILL);
  return {false, shell_status(status)};
}

std::string output_of(const Command& command) {
  std::ifstream file(command.output);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string last_words(const Command& command, std::size_t most_characters) {
  std::ifstream file(error_path(command));
  std::string words, cause;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    words += (words.empty() ? "" : " | ") + line;
    if (words.size() > 4 * most_characters) words.erase(0, words.size() - 2 * most_characters);
    // torchrun ends with pages about its ChildFailedError; the child's own error comes long before.
    if (line.find("Error: ") != std::string::npos && line.find("ChildFailedError") == std::string::npos)
      cause = line.substr(0, most_characters);
  }
  if (words.size() > most_characters) words = "..." + words.substr(words.size() - most_characters);
  return cause.empty() || words.find(cause) != std::string::npos ? words : cause + " ... " + words;
}

std::string why_failed(const Command& command, const Ended& ended) {
  if (!ended.in_time) return fmt::format("was ended after {:.0f} s: {}", command.seconds, last_words(command));
  if (ended.status == 127) return fmt::format("there is no program {}", command.arguments.front());
  return fmt::format("ended with status {}: {}", ended.status, last_words(command));
}

}  // namespace pipetrain::bench
