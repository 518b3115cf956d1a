#include "schedules/plan/action.hpp"

#include "catch.hpp"

using namespace pipetrain::schedules;

TEST_CASE("actions survive the way to text and back") {
  for (const auto kind :
       {ActionKind::forward, ActionKind::backward, ActionKind::input_grad, ActionKind::weight_grad, ActionKind::reduce_grads,
        ActionKind::sum_replicated, ActionKind::sum_tied, ActionKind::norm, ActionKind::optimizer})
    for (const int chunks : {1, 2, 300})
      for (const int chunk : {0, 1, 299})
        for (const int microbatch : {0, 7, 2147483647}) {
          if (chunk >= chunks || (chunk > 0 && !is_per_chunk(kind))) continue;
          const Action action{kind, static_cast<std::int16_t>(chunk), is_compute(kind) ? microbatch : -1};
          CAPTURE(to_string(action, chunks));
          REQUIRE(parse_action(to_string(action, chunks)) == action);
        }
}

TEST_CASE("actions are written as people write them") {
  REQUIRE(to_string({ActionKind::forward, 0, 3}) == "F3");
  REQUIRE(to_string({ActionKind::backward, 1, 3}, 2) == "1B3");
  REQUIRE(to_string({ActionKind::input_grad, 0, 0}, 2) == "0I0");
  REQUIRE(to_string({ActionKind::weight_grad, 0, 12}) == "W12");
  REQUIRE(to_string({ActionKind::reduce_grads, 0, -1}) == "R");
  REQUIRE(to_string({ActionKind::sum_replicated, 1, -1}, 2) == "1S");
  REQUIRE(to_string({ActionKind::sum_tied, 0, -1}) == "T");
  REQUIRE(to_string({ActionKind::norm, 0, -1}, 2) == "N");
  REQUIRE(to_string({ActionKind::optimizer, 0, -1}, 2) == "O");
}

TEST_CASE("a text that is not an action is not read as one") {
  for (const char* text : {"",   "F",  "3",  "F-1", "F 3", "f3", "F03", "01F3", "-1F3",        "F3x",     "R3",
                           "1N", "0O", "NN", "FB3", "Z3",  "X",  "1X2", "X-1",  "F2147483648", "32768F0", "F+3"})
    CHECK_FALSE(parse_action(text));
}
