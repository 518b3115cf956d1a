#include "bench/fuzz/fuzzer.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "bench/fuzz/heap.hpp"
#include "core/error.hpp"
#include "schedules/plan/plan_text.hpp"

namespace pipetrain::fuzz {
namespace {

constexpr std::size_t most_findings = 10;
constexpr std::size_t most_file_bytes = 2 * most_input_bytes;  // includes what Target::finish adds
constexpr int finding_status = 70, heap_status = 71, end_status = 0;
constexpr std::int64_t heap_to_end_at = std::int64_t{1} << 30;
constexpr double hang_seconds = 60;  // wall time without a new execution

// The state that the worker shares with the process that watches it.
struct Shared {
  std::atomic<std::uint64_t> execution;  // the current one
  std::atomic<std::uint64_t> done, accepted;
  std::atomic<double> slowest;
  std::atomic<std::int64_t> most_heap;
  std::size_t size;
  char what[500];
  char input[most_file_bytes];
};

class SharedMemory {
 public:
  SharedMemory() {
    void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    shared_ = new (memory) Shared{};
  }
  ~SharedMemory() { ::munmap(shared_, sizeof(Shared)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  Shared* operator->() const { return shared_; }
  Shared& operator*() const { return *shared_; }

 private:
  Shared* shared_;
};

double seconds_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, 300)) shown += static_cast<unsigned char>(c) < 32 ? '?' : c;
  return shown;
}

// Returns what is wrong with an error's text.
std::optional<std::string> fault_of_text(std::string_view text) {
  if (text.empty()) return "an error without a text";
  if (text.find_first_of("\n\r") != std::string_view::npos) return "an error of several lines: " + printable(text);
  return std::nullopt;
}

struct Execution {
  bool accepted = false;
  double seconds = 0;
  std::int64_t heap = 0;
  std::optional<std::string> fault;
};

Execution execute(const Target& target, std::string_view input) {
  Execution result;
  reset_heap_peak();
  const std::int64_t heap = heap_bytes();
  const double start = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  try {
    target.run(input);
    result.accepted = true;
  } catch (const Error& error) {
    result.fault = fault_of_text(error.what());
    if (error.kind() != ErrorKind::input)
      result.fault = fmt::format("{}: {}", to_string(error.kind()), printable(error.what()));
  } catch (const schedules::PlanFileError& error) {
    result.fault = fault_of_text(error.what());
  } catch (const std::exception& error) {
    result.fault = std::string("an exception of another kind: ") + printable(error.what());
  } catch (...) {
    result.fault = "an exception that is no std::exception";
  }
  result.seconds = seconds_of(CLOCK_THREAD_CPUTIME_ID) - start;
  result.heap = heap_peak() - heap;
  if (!result.fault && result.seconds > most_cpu_seconds)
    result.fault = fmt::format("took {:.1f} s, more than the {} s allowed", result.seconds, most_cpu_seconds);
  if (!result.fault && result.heap > most_heap_bytes)
    result.fault = fmt::format("took {} bytes of memory, more than the {} allowed", result.heap, most_heap_bytes);
  return result;
}

Shared* of_worker = nullptr;
void say_out_of_heap() { std::strcpy(of_worker->what, "took more than 1 GiB of memory"); }

// Runs one execution after the other; ends the process at the first finding.
[[noreturn]] void work(const Target& target, std::uint64_t seed, std::uint64_t first, std::uint64_t end, Shared& shared) {
  of_worker = &shared;
  limit_heap(heap_bytes() + heap_to_end_at, heap_status, say_out_of_heap);
  for (std::uint64_t execution = first; execution != end; ++execution) {
    const std::string input = input_of(target, seed, execution);
    shared.size = std::min(input.size(), most_file_bytes);
    std::memcpy(shared.input, input.data(), shared.size);
    shared.execution = execution;
    const Execution result = execute(target, input);
    ++shared.done;
    shared.accepted += result.accepted ? 1 : 0;
    shared.slowest = std::max<double>(shared.slowest, result.seconds);
    shared.most_heap = std::max<std::int64_t>(shared.most_heap, result.heap);
    if (!result.fault) continue;
    std::snprintf(shared.what, sizeof shared.what, "%s", result.fault->c_str());
    ::_exit(finding_status);
  }
  ::_exit(end_status);
}

// Watches the worker; kills it at `deadline`, and if one execution takes too long.
class Watch {
 public:
  Watch(pid_t worker, Shared& shared, double deadline) : worker_(worker), shared_(shared), deadline_(deadline) {}

  // Returns the finding's line; nothing if the worker did all its executions, or time is over.
  std::optional<std::string> wait() {
    std::uint64_t seen = shared_.done;
    double seen_at = seconds_of(CLOCK_MONOTONIC);
    for (;;) {
      int status = 0;
      if (::waitpid(worker_, &status, WNOHANG) == worker_) return describe(status);
      const double now = seconds_of(CLOCK_MONOTONIC);
      if (shared_.done != seen) seen = shared_.done, seen_at = now;
      const bool hangs = now - seen_at > hang_seconds;
      if (hangs || (deadline_ > 0 && now > deadline_)) {
        ::kill(worker_, SIGKILL);
        ::waitpid(worker_, &status, 0);
        if (WIFEXITED(status)) return describe(status);
        return hangs ? std::optional(fmt::format("did not end within {} s", hang_seconds)) : std::nullopt;
      }
      ::usleep(5'000);
    }
  }

 private:
  std::optional<std::string> describe(int status) const {
    if (WIFSIGNALED(status)) return fmt::format("ended by signal {}", WTERMSIG(status));
    if (WEXITSTATUS(status) == end_status) return std::nullopt;
    if (WEXITSTATUS(status) == finding_status || WEXITSTATUS(status) == heap_status) return shared_.what;
    return fmt::format("ended with status {}: what a sanitizer found stands above", WEXITSTATUS(status));
  }

  pid_t worker_;
  Shared& shared_;
  double deadline_;
};

}  // namespace

std::string input_of(const Target& target, std::uint64_t seed, std::uint64_t execution) {
  std::uint64_t name = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : target.name) name = (name ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  Random keys(seed ^ name);
  Random random(keys.bits() ^ execution * 0x9e3779b97f4a7c15);
  std::string text = mutated(random, target.seeds, target.dictionary);
  return target.finish ? target.finish(random, std::move(text)) : text;
}

std::optional<std::string> fault_of(const Target& target, std::string_view input) { return execute(target, input).fault; }

Outcome fuzz(const Target& target, std::uint64_t seed, std::uint64_t first, const Limits& limits) {
  const SharedMemory shared;
  const double start = seconds_of(CLOCK_MONOTONIC);
  const double deadline = limits.seconds > 0 ? start + limits.seconds : 0;
  const std::uint64_t end = limits.executions > 0 ? first + limits.executions : ~std::uint64_t{0};
  Outcome outcome;
  for (std::uint64_t next = first; outcome.findings.size() < most_findings && next < end;) {
    if (deadline > 0 && seconds_of(CLOCK_MONOTONIC) > deadline) break;
    const pid_t worker = ::fork();
    if (worker < 0) throw std::runtime_error("cannot start a process");
    if (worker == 0) work(target, seed, next, end, *shared);
    const auto what = Watch(worker, *shared, deadline).wait();
    if (!what) break;
    outcome.findings.push_back({shared->execution, *what, std::string(shared->input, shared->size)});
    next = shared->execution + 1;
  }
  outcome.executions = shared->done;
  outcome.accepted = shared->accepted;
  outcome.seconds = seconds_of(CLOCK_MONOTONIC) - start;
  outcome.slowest = shared->slowest;
  outcome.most_heap = shared->most_heap;
  return outcome;
}

}  // namespace pipetrain::fuzz
