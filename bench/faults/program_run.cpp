#include "bench/faults/program_run.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

namespace pipetrain::bench {

ProgramRun::ProgramRun(const std::vector<std::string>& words, const std::vector<std::string>& variables,
                       std::filesystem::path err)
    : err_(std::move(err)) {
  process_ = ::fork();
  if (process_ != 0) return;
  for (const std::string& variable : variables) ::putenv(const_cast<char*>(variable.c_str()));
  ::dup2(::open("/dev/null", O_RDWR), STDOUT_FILENO);
  ::dup2(::open(err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  ::_exit(127);
}

ProgramRun::~ProgramRun() {
  if (status_) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

std::optional<int> ProgramRun::wait(std::chrono::milliseconds longest) {
  constexpr std::chrono::milliseconds look{5};
  for (auto left = longest; !status_; left -= look) {
    int status = 0;
    if (::waitpid(process_, &status, WNOHANG) == process_) status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (status_ || left.count() <= 0) break;
    std::this_thread::sleep_for(look);
  }
  return status_;
}

std::string ProgramRun::err() const { return text_of(err_); }

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

bool succeeds(const std::string& command) { return std::system(("{ " + command + "; } > /dev/null 2>&1").c_str()) == 0; }

}  // namespace pipetrain::bench
