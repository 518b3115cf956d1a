#include "schedules/plan/plan.hpp"

#include <stdexcept>

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "tests/schedules/pipeline_driver.hpp"

using namespace pipetrain::schedules;
using Catch::Matchers::Contains;

TEST_CASE("a looping placement deals virtual stages round") {
  const auto placement = Placement::looping(3, 2);
  REQUIRE(placement.virtual_stages() == 6);
  REQUIRE(placement.at(4) == StageChunk{1, 1});
  REQUIRE(placement.virtual_stage(1, 1) == 4);
  REQUIRE(placement.is_first({0, 0}));
  REQUIRE(placement.is_last({2, 1}));
  REQUIRE_FALSE(placement.is_last({2, 0}));
}

TEST_CASE("a V-shaped placement goes down and comes back") {
  const auto placement = Placement::v_shape(3);
  REQUIRE(placement.chunks() == 2);
  for (int v = 0; v < 6; ++v) {
    const StageChunk at = placement.at(v);
    CHECK(at == (v < 3 ? StageChunk{v, 0} : StageChunk{5 - v, 1}));
    CHECK(placement.virtual_stage(at.stage, at.chunk) == v);
  }
  REQUIRE(placement.is_first({0, 0}));
  REQUIRE(placement.is_last({0, 1}));
}

TEST_CASE("placements refuse impossible sizes") {
  REQUIRE_THROWS_AS(Placement::looping(0, 1), std::invalid_argument);
  REQUIRE_THROWS_AS(Placement::looping(1, 0), std::invalid_argument);
  REQUIRE_THROWS_AS(Placement::looping(1, 32768), std::invalid_argument);
  REQUIRE_THROWS_AS(Placement::v_shape(0), std::invalid_argument);
}

TEST_CASE("gpipe: all forwards, then all backwards") {
  const Plan plan = build_schedule("gpipe", {2, 1, 3});
  REQUIRE(list_text(plan, 0) == "F0 F1 F2 B0 B1 B2");
  REQUIRE(list_text(plan, 1) == "F0 F1 F2 B0 B1 B2");
}

TEST_CASE("1f1b: warm up, alternate, drain") {
  const Plan many = build_schedule("1f1b", {4, 1, 6});
  CHECK(list_text(many, 0) == "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
  CHECK(list_text(many, 1) == "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
  CHECK(list_text(many, 2) == "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5");
  CHECK(list_text(many, 3) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5");
  const Plan few = build_schedule("1f1b", {4, 1, 2});
  CHECK(list_text(few, 0) == "F0 F1 B0 B1");
  CHECK(list_text(few, 3) == "F0 B0 F1 B1");
  const Plan one = build_schedule("1f1b", {3, 1, 1});
  for (int stage = 0; stage < 3; ++stage) CHECK(list_text(one, stage) == "F0 B0");
  CHECK(list_text(build_schedule("1f1b", {1, 1, 2}), 0) == "F0 B0 F1 B1");
}

TEST_CASE("the end of the step follows the layout") {
  const Plan compute = build_schedule("1f1b", {3, 1, 1});
  const Plan all = with_end_of_step(compute, {true, true, true});
  CHECK(list_text(all, 0) == "F0 B0 R S T N O");
  CHECK(list_text(all, 1) == "F0 B0 R S N O");
  CHECK(list_text(all, 2) == "F0 B0 R S T N O");
  CHECK(list_text(with_end_of_step(compute, {}), 1) == "F0 B0 N O");
}

TEST_CASE("each stage that holds an end of the model has the sum of tied weights once") {
  const auto tied = [](const char* schedule, const ScheduleShape& shape) {
    return with_end_of_step(build_schedule(schedule, shape), {false, false, true});
  };
  CHECK(list_text(tied("gpipe", {1, 1, 1}), 0) == "F0 B0 T N O");
  const Plan looping = tied("interleaved", {2, 2, 1});
  CHECK(list_text(looping, 0) == "0F0 1F0 1B0 0B0 0T N O");
  CHECK(list_text(looping, 1) == "0F0 1F0 1B0 0B0 1T N O");
  const Plan alone = tied("interleaved", {1, 2, 1});
  CHECK(list_text(alone, 0) == "0F0 1F0 1B0 0B0 0T N O");
  const Plan v_shape = tied("zb-v", {2, 2, 1});
  CHECK_THAT(list_text(v_shape, 0), Contains(" 0T N O") && !Contains("1T"));
  CHECK_THAT(list_text(v_shape, 1), !Contains("T"));
}

TEST_CASE("the end of the step goes through chunks in the order in which they end") {
  Plan plan{"hand", Placement::v_shape(1), 1, {}, ReadyRule::none};
  plan.stages = {
      {{ActionKind::forward, 0, 0}, {ActionKind::forward, 1, 0}, {ActionKind::backward, 1, 0}, {ActionKind::backward, 0, 0}}};
  CHECK(list_text(with_end_of_step(plan, {true, false, true}), 0) == "0F0 1F0 1B0 0B0 1R 0R 0T N O");
}

TEST_CASE("a schedule that does not exist is answered with those that do") {
  REQUIRE_THROWS_WITH(build_schedule("1fib", {2, 1, 2}), Contains("\"1fib\"; there are gpipe, 1f1b, ") && Contains("auto"));
}

TEST_CASE("builders refuse impossible sizes") {
  REQUIRE_THROWS_WITH(build_schedule("1f1b", {0, 1, 2}), Contains("stages"));
  REQUIRE_THROWS_WITH(build_schedule("1f1b", {2, 1, 0}), Contains("microbatches"));
  REQUIRE_THROWS_WITH(build_schedule("1f1b", {2, 3, 2}), Contains("1 chunk"));
}
