#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "comm/shared_control.hpp"
#include "comm/ucx/ucx_traffic.hpp"
#include "comm/ucx/ucx_transport.hpp"
#include "wait_until.hpp"

using namespace pipetrain;
using test::a_rank_each;
using test::Traffic;
using test::TrafficEdge;

namespace {

// Waits for the notice that a process is gone.
class Loss {
 public:
  explicit Loss(Transport& transport) {
    transport.on_lost([this](int process, const std::string& why) {
      const std::lock_guard lock(mutex_);
      lost_.emplace_back(process, why);
      changed_.notify_all();
    });
  }
  std::vector<std::pair<int, std::string>> wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [this] { return !lost_.empty(); });
    return lost_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<int, std::string>> lost_;
};

const std::vector<TrafficEdge> ring = {
    {.edge = 1, .from = 0, .to = 1}, {.edge = 2, .from = 1, .to = 2}, {.edge = 3, .from = 2, .to = 0}};

bool is_stopped(std::int64_t pid) {
  std::string number, name, state;
  std::ifstream("/proc/" + std::to_string(pid) + "/stat") >> number >> name >> state;
  return state == "T";
}

}  // namespace

TEST_CASE("a killed process is noticed by those that are connected to it over UCX") {
  test::SharedControl shared(3);
  const auto wrong = test::in_processes(3,
                                        [&](int process) {
                                          const auto control = shared.plane(process);
                                          const Mesh mesh = a_rank_each(3);
                                          UcxTransport transport(*control, mesh);
                                          Loss loss(transport);
                                          Traffic traffic(transport, process, ring);
                                          traffic.run();
                                          control->exchange("done", {});
                                          if (process == 1) kill(getpid(), SIGKILL);
                                          const auto lost = loss.wait(std::chrono::seconds(30));
                                          test::require(lost.size() == 1, "it was not noticed");
                                          test::require(lost[0].first == 1 && !lost[0].second.empty(),
                                                        "another process than the one that was killed");
                                        },
                                        {1});
  for (const auto& line : wrong) UNSCOPED_INFO(line);
  CHECK(wrong.empty());
}

// When the process dies, messages are in any state of transfer.
TEST_CASE("a process that is killed amid traffic is noticed, and the transport ends") {
  const std::vector<TrafficEdge> edges = {
      {.edge = 1, .from = 0, .to = 1, .slots = 4, .microbatches = 1000000, .most_rows = 4096, .cols = 256},
      {.edge = 2, .from = 1, .to = 0, .slots = 4, .microbatches = 1000000, .most_rows = 4096, .cols = 256, .shared = false},
      {.edge = 3, .from = 0, .to = 1, .slots = 4, .microbatches = 1000000, .most_rows = 8},
      {.edge = 4, .from = 1, .to = 0, .slots = 4, .microbatches = 1000000, .most_rows = 8}};
  for (int turn = 0; turn < 10; ++turn) {
    test::SharedControl shared(2, turn % 2 == 0);
    const auto wrong = test::in_processes(2,
                                          [&](int process) {
                                            const auto control = shared.plane(process);
                                            const Mesh mesh = a_rank_each(2);
                                            UcxTransport transport(*control, mesh);
                                            Loss loss(transport);
                                            Traffic traffic(transport, process, edges);
                                            bool noticed = false;
                                            std::thread killer([&] {
                                              if (process == 1) {
                                                std::this_thread::sleep_for(std::chrono::milliseconds(50 + 7 * turn));
                                                kill(getpid(), SIGKILL);
                                              }
                                              noticed = loss.wait(std::chrono::seconds(20)).size() == 1;
                                              transport.abort(std::make_exception_ptr(std::runtime_error("over")));
                                              traffic.stop();
                                            });
                                            bool ended = false;
                                            try {
                                              traffic.run();
                                            } catch (const std::exception&) {
                                              ended = true;
                                            }
                                            killer.join();
                                            test::require(noticed && ended, "it was not noticed, or the traffic went on");
                                          },
                                          {1});
    for (const auto& line : wrong) UNSCOPED_INFO(line);
    CHECK(wrong.empty());
  }
}

// UCX does not notice it, and it answers no goodbye.
TEST_CASE("no process waits for a stopped one that is known to be gone") {
  test::SharedControl shared(2);
  const auto wrong = test::in_processes(
      2,
      [&](int process) {
        const auto control = shared.plane(process);
        const Mesh mesh = a_rank_each(2);
        auto transport = std::make_unique<UcxTransport>(*control, mesh);
        {
          Traffic traffic(*transport, process, {{.edge = 1, .from = 0, .to = 1}, {.edge = 2, .from = 1, .to = 0}});
          traffic.run();
          control->exchange("done", {});
        }
        if (process == 1) raise(SIGSTOP);
        test::require(test::wait_until([&] { return is_stopped(control->info(1).pid); }), "it does not stop");
        shared.call_gone(1);
        const auto start = std::chrono::steady_clock::now();
        transport->abort(std::make_exception_ptr(std::runtime_error("over")));
        transport.reset();
        const auto took = std::chrono::steady_clock::now() - start;
        kill(static_cast<pid_t>(control->info(1).pid), SIGKILL);
        test::require(took < std::chrono::milliseconds(900), "it waited as long as for one that may still answer");
      },
      {1});
  for (const auto& line : wrong) UNSCOPED_INFO(line);
  CHECK(wrong.empty());
}

TEST_CASE("a process that leaves is not lost") {
  test::SharedControl shared(3);
  const auto wrong = test::in_processes(3, [&](int process) {
    const auto control = shared.plane(process);
    const Mesh mesh = a_rank_each(3);
    auto transport = std::make_unique<UcxTransport>(*control, mesh);
    Loss loss(*transport);
    {
      Traffic traffic(*transport, process, ring);
      traffic.run();
      control->exchange("done", {});
    }
    if (process == 1) transport.reset();
    if (process != 1) test::require(loss.wait(std::chrono::milliseconds(200)).empty(), "it was taken for lost");
    control->exchange("end", {});
  });
  for (const auto& line : wrong) UNSCOPED_INFO(line);
  CHECK(wrong.empty());
}
