#include "actors/training/records/transfer_times.hpp"

#include "catch.hpp"

using namespace pipetrain;
using schedules::Placement;

namespace {

struct TimedRun {
  const char* action;
  int start, end;  // milliseconds
};

StageTrace trace(int replica, int stage, const std::vector<TimedRun>& actions) {
  StageTrace trace{{replica, stage}, {}};
  const auto at = [](int milliseconds) {
    return std::chrono::steady_clock::time_point(std::chrono::milliseconds(milliseconds));
  };
  for (const auto& [action, start, end] : actions)
    trace.actions.push_back({schedules::parse_action(action).value(), {at(start), at(end)}});
  return trace;
}

}  // namespace

TEST_CASE("a message's time is known only from a stage that idled for it") {
  const auto times =
      transfer_times(Placement::looping(2, 1), {trace(0, 0, {{"F0", 0, 10}, {"F1", 10, 20}, {"B0", 35, 50}, {"B1", 50, 60}}),
                                                trace(0, 1, {{"F0", 12, 20}, {"B0", 20, 31}, {"F1", 31, 40}, {"B1", 40, 48}})});
  REQUIRE(times.size() == 1);
  // B0 of stage 0 waited from 31 to 35. F0 is stage 1's first action; F1 arrived while it was busy, and so did stage 0's B1.
  REQUIRE(times[0].size() == 1);
  CHECK(times[0][0] == Approx(0.004));
}

TEST_CASE("messages of several chunks and replicas each have their own place; those inside a stage take none") {
  // A V: virtual stages 0 and 3 are on stage 0, 1 and 2 on stage 1.
  const std::vector<TimedRun> first = {{"F0", 0, 10}, {"1F0", 34, 40}, {"1B0", 40, 50}, {"B0", 75, 80}};
  const std::vector<TimedRun> second = {{"F0", 11, 20}, {"1F0", 20, 30}, {"1B0", 53, 60}, {"B0", 60, 70}};
  const auto times =
      transfer_times(Placement::v_shape(2), {trace(0, 0, first), trace(0, 1, second), trace(1, 0, first), trace(1, 1, second)});
  REQUIRE(times.size() == 3);
  REQUIRE(times[0].size() == 2);  // 0 and 1: the gradient of B0, of either replica
  CHECK(times[0][1] == Approx(0.005));
  CHECK(times[1].empty());        // inside stage 1
  REQUIRE(times[2].size() == 4);  // 2 and 3: the activation of 1F0, then the gradient of 1B0
  CHECK(times[2][0] == Approx(0.004));
}
