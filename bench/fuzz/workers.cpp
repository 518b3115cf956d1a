#include "bench/fuzz/workers.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <vector>

namespace pipetrain::fuzz {
namespace {

namespace fs = std::filesystem;

// The result of one process, which it writes into memory that it shares with the process that waits for it.
struct WorkerResult {
  bool ended = false;
  std::uint64_t executions = 0, accepted = 0, findings = 0;
  double slowest = 0;
  std::int64_t most_heap = 0;
};

class SharedResults {
 public:
  explicit SharedResults(int workers) : bytes_(sizeof(WorkerResult) * static_cast<std::size_t>(workers)) {
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    for (int worker = 0; worker < workers; ++worker) new (&of(worker)) WorkerResult{};
  }
  ~SharedResults() { ::munmap(memory_, bytes_); }
  SharedResults(const SharedResults&) = delete;
  SharedResults& operator=(const SharedResults&) = delete;
  WorkerResult& of(int worker) const { return static_cast<WorkerResult*>(memory_)[worker]; }

 private:
  std::size_t bytes_;
  void* memory_ = nullptr;
};

// Returns the CPU seconds of the processes that have ended and been waited for.
double cpu_seconds_of_children() {
  rusage use{};
  ::getrusage(RUSAGE_CHILDREN, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

Target find_target(const std::string& parser, const fs::path& folder) {
  std::vector<Target> all = all_targets(folder);
  const auto found = std::ranges::find(all, parser, &Target::name);
  if (found == all.end()) throw std::runtime_error("no parser is named " + parser);
  return std::move(*found);
}

void work(const WorkersRun& run, int worker, const std::function<void(const Target&, const Finding&)>& save,
          WorkerResult& result) {
  const WorkFolder folder;
  const Target target = find_target(run.parser, folder.path());
  const Share share = share_of(run.first, run.limits, worker, run.workers);
  const Outcome outcome = fuzz(target, run.seed, share.first, share.limits);
  for (const Finding& finding : outcome.findings) save(target, finding);
  result = {.ended = true,
            .executions = outcome.executions,
            .accepted = outcome.accepted,
            .findings = outcome.findings.size(),
            .slowest = outcome.slowest,
            .most_heap = outcome.most_heap};
}

[[noreturn]] void run_process(const WorkersRun& run, int worker, const std::function<void(const Target&, const Finding&)>& save,
                              WorkerResult& result) {
  try {
    work(run, worker, save, result);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz: %s, process %d: %s\n", run.parser.c_str(), worker, error.what());
    ::_exit(1);
  }
  ::_exit(0);
}

}  // namespace

WorkFolder::WorkFolder() {
  const fs::path root = fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
  std::string pattern = (root / "pipetrain-fuzz-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
  path_ = pattern;
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Share share_of(std::uint64_t first, const Limits& limits, int worker, int workers) {
  const auto index = static_cast<std::uint64_t>(worker), count = static_cast<std::uint64_t>(workers);
  if (limits.executions == 0) return {first + (index << 40), limits};
  const std::uint64_t each = limits.executions / count, more = limits.executions % count;
  const std::uint64_t begin = index * each + std::min(index, more);
  return {first + begin, {each + (index < more ? 1 : 0), limits.seconds}};
}

WorkersOutcome fuzz_over(const WorkersRun& run, const std::function<void(const Target&, const Finding&)>& save) {
  const SharedResults results(run.workers);
  const auto start = std::chrono::steady_clock::now();
  const double cpu_start = cpu_seconds_of_children();
  std::vector<pid_t> processes;
  for (int worker = 0; worker < run.workers; ++worker) {
    if (share_of(run.first, run.limits, worker, run.workers).limits.executions == 0 && run.limits.executions > 0) {
      results.of(worker).ended = true;  // there are more processes than executions
      continue;
    }
    const pid_t process = ::fork();
    if (process < 0) throw std::runtime_error("cannot start a process");
    if (process == 0) run_process(run, worker, save, results.of(worker));
    processes.push_back(process);
  }
  for (const pid_t process : processes) ::waitpid(process, nullptr, 0);
  WorkersOutcome outcome;
  for (int worker = 0; worker < run.workers; ++worker) {
    const WorkerResult& result = results.of(worker);
    outcome.failed += result.ended ? 0 : 1;
    outcome.executions += result.executions;
    outcome.accepted += result.accepted;
    outcome.findings += result.findings;
    outcome.slowest = std::max(outcome.slowest, result.slowest);
    outcome.most_heap = std::max(outcome.most_heap, result.most_heap);
  }
  outcome.cpu_seconds = cpu_seconds_of_children() - cpu_start;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

}  // namespace pipetrain::fuzz
