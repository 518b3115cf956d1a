#include "actors/training/input_wait.hpp"

#include "catch.hpp"

using namespace pipetrain;
using std::chrono::seconds;

namespace {

using Clock = ReadTimes::Clock;
Clock::time_point at(int second) { return Clock::time_point(seconds(second)); }

}  // namespace

TEST_CASE("input is waited for while it is read and the stage that reads it is idle") {
  // Idle from 0 to 10 and from 20 to 30; what is idle behind the last action is another stage's time.
  const StageTrace stage{{}, {{{}, {at(20), at(20)}}, {{}, {at(30), at(40)}}, {{}, {at(10), at(20)}}}};
  CHECK(input_wait({}, stage, at(0)) == 0);
  CHECK(input_wait({{at(0), at(4)}}, stage, at(0)) == 4);
  CHECK(input_wait({{at(12), at(18)}}, stage, at(0)) == 0);  // read while the stage computes
  CHECK(input_wait({{at(5), at(15)}, {at(18), at(50)}}, stage, at(0)) == 15);
  CHECK(input_wait({{at(-5), at(2)}}, stage, at(0)) == 2);  // begun ahead of the step
  CHECK(input_wait({{at(0), at(40)}}, stage, at(0)) == 20);
}

TEST_CASE("times of reading belong to the step that the samples are for") {
  ReadTimes times;
  times.add(1, at(0), at(1));
  times.add(2, at(2), at(3));
  times.add(1, at(4), at(5));
  const auto first = times.take(1);
  REQUIRE(first.size() == 2);
  CHECK(first[1].start == at(4));
  CHECK(times.take(1).empty());
  CHECK(times.take(2).size() == 1);
}
