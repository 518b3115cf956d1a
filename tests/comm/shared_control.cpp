#include "comm/shared_control.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>
#include <stdexcept>
#include <thread>

#include "core/error.hpp"
#include "wait_until.hpp"

namespace pipetrain::test {

namespace {
constexpr int most_processes = 8;
constexpr std::size_t most_bytes = std::size_t{1} << 20;
}  // namespace

struct SharedControl::Region {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int processes = 0, given = 0, taken = 0;
  unsigned round = 0;
  bool one_machine = true;
  std::atomic<bool> gone[most_processes] = {};
  pid_t pids[most_processes] = {};
  std::size_t sizes[most_processes] = {};
  std::byte bytes[most_processes][most_bytes];
};

namespace {

class Plane : public ControlPlane {
 public:
  Plane(SharedControl::Region& region, int process, std::chrono::milliseconds late)
      : region_(region), process_(process), late_(late) {
    for (int other = 0; other < region.processes; ++other) {
      ProcessInfo info;
      info.process = other;
      info.host = "here";
      info.label = "test";
      info.address = "127.0.0.1";
      info.memory_scope = "kernel";
      info.machine = region.one_machine ? "this" : std::to_string(other);
      infos_.push_back(info);
    }
  }

  int process() const override { return process_; }
  int processes() const override { return region_.processes; }
  const ProcessInfo& info(int process) const override { return infos_.at(static_cast<std::size_t>(process)); }
  bool is_gone(int process) const override { return region_.gone[process]; }
  void on_message(Channel, OnMessage) override {}
  void on_lost(OnLost) override {}
  void send(int, Channel, Bytes) override { throw std::logic_error("no messages here"); }
  void leave() override {}

  std::vector<Bytes> exchange(const std::string&, Bytes mine) override {
    require(mine.size() <= most_bytes, "too much to exchange");
    pthread_mutex_lock(&region_.mutex);
    const auto own = static_cast<std::size_t>(process_);
    region_.pids[own] = getpid();
    region_.sizes[own] = mine.size();
    if (!mine.empty()) std::memcpy(region_.bytes[own], mine.data(), mine.size());
    ++region_.given;
    pthread_cond_broadcast(&region_.changed);
    const unsigned round = region_.round;
    std::vector<Bytes> all;
    if (wait([&] { return region_.given == region_.processes; })) {
      for (int other = 0; other < region_.processes; ++other) {
        all.emplace_back(region_.bytes[other], region_.bytes[other] + region_.sizes[other]);
        infos_[static_cast<std::size_t>(other)].pid = region_.pids[other];
      }
      if (++region_.taken == region_.processes) {
        region_.given = region_.taken = 0;
        ++region_.round;
        pthread_cond_broadcast(&region_.changed);
      }
      wait([&] { return region_.round != round; });
    }
    pthread_mutex_unlock(&region_.mutex);
    if (all.empty()) throw Error(ErrorKind::peer_lost, "not all came to the exchange");
    std::this_thread::sleep_for(late_);
    return all;
  }

 private:
  template <class Ready>
  bool wait(Ready ready) {
    timespec limit{};
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 30;
    while (!ready()) {
      if (pthread_cond_timedwait(&region_.changed, &region_.mutex, &limit) != 0) return false;
    }
    return true;
  }

  SharedControl::Region& region_;
  int process_;
  std::chrono::milliseconds late_;
  std::vector<ProcessInfo> infos_;
};

int run_body(const std::function<void(int)>& body, int process) {
  try {
    body(process);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "process %d: %s\n", process, error.what());
  }
  return 1;
}

}  // namespace

SharedControl::SharedControl(int processes, bool one_machine) {
  void* memory = mmap(nullptr, sizeof(Region), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  region_ = new (memory) Region;
  region_->processes = processes;
  region_->one_machine = one_machine;
  pthread_mutexattr_t mutex;
  pthread_mutexattr_init(&mutex);
  pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&region_->mutex, &mutex);
  pthread_condattr_t condition;
  pthread_condattr_init(&condition);
  pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
  pthread_cond_init(&region_->changed, &condition);
}

void SharedControl::call_gone(int process) { region_->gone[process] = true; }

SharedControl::~SharedControl() { munmap(region_, sizeof(Region)); }

std::unique_ptr<ControlPlane> SharedControl::plane(int process, std::chrono::milliseconds late) {
  return std::make_unique<Plane>(*region_, process, late);
}

std::vector<std::string> in_processes(int processes, const std::function<void(int)>& body, const std::vector<int>& killed) {
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (int process = 0; process < processes; ++process) {
    const pid_t child = fork();
    if (child == 0) _exit(run_body(body, process));
    children.push_back(child);
  }
  std::vector<std::string> wrong;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  for (int process = 0; process < processes; ++process) {
    const pid_t child = children[static_cast<std::size_t>(process)];
    int status = 0;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now());
    if (!wait_until([&] { return waitpid(child, &status, WNOHANG) != 0; }, left)) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    }
    const bool expected = std::find(killed.begin(), killed.end(), process) != killed.end();
    if (status != 0 && !expected) {
      wrong.push_back("process " + std::to_string(process) + ": wait status " + std::to_string(status));
    }
  }
  return wrong;
}

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

}  // namespace pipetrain::test
