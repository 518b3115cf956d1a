#include "actors/training/input/input_wait.hpp"

#include "catch.hpp"

using namespace pipetrain;
using std::chrono::seconds;

namespace {

using Clock = ReadTimes::Clock;
Clock::time_point at_second(int second) { return Clock::time_point(seconds(second)); }

}  // namespace

TEST_CASE("input is waited for while it is read and the stage that reads it is idle") {
  // The stage is idle from 0 to 10 and from 20 to 30; idle time after its last action is another stage's.
  const StageTrace stage{
      {}, {{{}, {at_second(20), at_second(20)}}, {{}, {at_second(30), at_second(40)}}, {{}, {at_second(10), at_second(20)}}}};
  CHECK(input_wait({}, stage, at_second(0)) == 0);
  CHECK(input_wait({{at_second(0), at_second(4)}}, stage, at_second(0)) == 4);
  CHECK(input_wait({{at_second(12), at_second(18)}}, stage, at_second(0)) == 0);  // read while the stage computes
  CHECK(input_wait({{at_second(5), at_second(15)}, {at_second(18), at_second(50)}}, stage, at_second(0)) == 15);
  CHECK(input_wait({{at_second(-5), at_second(2)}}, stage, at_second(0)) == 2);  // begun ahead of the step
  CHECK(input_wait({{at_second(0), at_second(40)}}, stage, at_second(0)) == 20);
}

TEST_CASE("times of reading belong to the step that the samples are for") {
  ReadTimes times;
  times.add(1, at_second(0), at_second(1));
  times.add(2, at_second(2), at_second(3));
  times.add(1, at_second(4), at_second(5));
  const auto first = times.take(1);
  REQUIRE(first.size() == 2);
  CHECK(first[1].start == at_second(4));
  CHECK(times.take(1).empty());
  CHECK(times.take(2).size() == 1);
}
