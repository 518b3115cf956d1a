#include "comm/cuda/gpu_process.hpp"

#include <execinfo.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "comm/control/control_fixture.hpp"
#include "comm/nccl/nccl_transport.hpp"
#include "skip.hpp"
#include "wait_until.hpp"

namespace pipetrain::test {
namespace {

using Clock = std::chrono::steady_clock;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> environment_of(const GpuRun& run, int process, std::uint16_t port) {
  std::map<std::string, std::string> values;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string line = *entry;
    values[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
  }
  values.erase("TEST_COUNTS_FILE");  // of the test case that starts it
  values["PIPETRAIN_TEST_RUN"] = std::to_string(process) + ' ' + std::to_string(run.processes) + ' ' + std::to_string(port) +
                                 ' ' + std::to_string(static_cast<int>(run.kind)) + ' ' + std::to_string(run.gpus) + ' ' +
                                 std::to_string(run.one_each ? 1 : 0);
  if (run.one_each) values["CUDA_VISIBLE_DEVICES"] = std::to_string(process % run.gpus);
  std::vector<std::string> lines;
  for (const auto& [name, value] : values) lines.push_back(name + "=" + value);
  return lines;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

pid_t start(const GpuRun& run, int process, std::uint16_t port) {
  std::vector<std::string> arguments{std::filesystem::read_symlink("/proc/self/exe").string(), run.test_case};
  std::vector<std::string> environment = environment_of(run, process, port);
  pid_t pid = -1;
  const int status =
      ::posix_spawn(&pid, arguments[0].c_str(), nullptr, nullptr, pointers(arguments).data(), pointers(environment).data());
  return status == 0 ? pid : -1;
}

int end_within(pid_t pid, Clock::time_point limit) {
  int status = 0;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now());
  if (!wait_until([&] { return ::waitpid(pid, &status, WNOHANG) != 0; }, left)) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
    return -99;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Reports where a crash happened that no test case is blamed for, such as one at the process's end.
void say_where(int signal) {
  void* frames[64];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, 64), STDERR_FILENO);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

bool have(TransportKind kind, int gpus) {
  if (!needs_gpus(cuda_device_count(), gpus)) return false;
  if (kind != TransportKind::ipc && !has_nccl()) {
    skip("needs NCCL, and this build has none");
    return false;
  }
  if (kind == TransportKind::nccl_put && describe_nccl().find("which puts") == std::string::npos) {
    skip("needs puts: " + describe_nccl());
    return false;
  }
  return true;
}

std::vector<int> run_gpu_processes(const GpuRun& run) {
  const std::uint16_t port = free_port();
  std::vector<pid_t> pids;
  for (int process = 0; process < run.processes; ++process) pids.push_back(start(run, process, port));
  const auto limit = Clock::now() + run.limit;
  std::vector<int> ends;
  for (const pid_t pid : pids) ends.push_back(pid < 0 ? -98 : end_within(pid, limit));
  return ends;
}

std::unique_ptr<GpuProcess> GpuProcess::here() {
  std::istringstream text(variable("PIPETRAIN_TEST_RUN"));
  int process = 0, processes = 0, port = 0, kind = 0, gpus = 0, one_each = 0;
  if (!(text >> process >> processes >> port >> kind >> gpus >> one_each)) {
    skip("is one process of another test case");
    return nullptr;
  }
  auto self = std::make_unique<GpuProcess>();
  self->kind_ = static_cast<TransportKind>(kind);
  self->gpus_ = gpus;
  self->one_each_ = one_each != 0;
  ::signal(SIGSEGV, say_where);
  Rendezvous rendezvous = rendezvous_of(process, processes, static_cast<std::uint16_t>(port));
  rendezvous.timeout = std::chrono::seconds(60);
  self->control_ = join_processes(rendezvous);
  return self;
}

int GpuProcess::gpu(int n) const { return one_each_ ? 0 : (process() * std::max(1, gpus_ / 2) + n) % gpus_; }

}  // namespace pipetrain::test
