#include "comm/task_thread.hpp"

#include <atomic>
#include <vector>

#include "catch.hpp"

using namespace pipetrain;
using namespace std::chrono_literals;

TEST_CASE("a task thread does tasks in order, and others once their conditions hold, each line in its order", "[transport]") {
  std::vector<int> done;  // by the thread, read after drain()
  std::atomic<bool> first{false}, second{false}, other{false};
  TaskThread thread([] {}, 100ms);
  thread.add_when(
      1, [&] { return first.load(); }, [&] { done.push_back(1); });
  thread.add_when(
      1, [&] { return second.load(); }, [&] { done.push_back(2); });
  thread.add_when(
      2, [&] { return other.load(); }, [&] { done.push_back(3); });
  thread.add([&] { done.push_back(0); });
  CHECK_FALSE(thread.drain(20ms));

  second = true;  // after the first of its queue
  CHECK_FALSE(thread.drain(20ms));
  other = true;
  CHECK_FALSE(thread.drain(20ms));
  first = true;
  CHECK(thread.drain(10s));
  CHECK(done == std::vector<int>{0, 3, 1, 2});
}

TEST_CASE("a task thread calls its idle work also while conditions do not hold", "[transport]") {
  std::atomic<int> calls{0};
  TaskThread thread([&] { ++calls; }, 1ms);
  thread.add_when(
      1, [&] { return calls > 3; }, [] {});
  CHECK(thread.drain(10s));
}
