#include "schedules/plan/hanging.hpp"

#include "catch.hpp"

using namespace pipetrain::schedules;

namespace {

constexpr Action forward(int microbatch, int chunk = 0) {
  return {ActionKind::forward, static_cast<std::int16_t>(chunk), microbatch};
}
constexpr Action backward(int microbatch, int chunk = 0) {
  return {ActionKind::backward, static_cast<std::int16_t>(chunk), microbatch};
}
constexpr Action reduce{ActionKind::reduce_grads, 0, -1}, norm{ActionKind::norm, 0, -1};

using Entries = std::vector<std::size_t>;

}  // namespace

TEST_CASE("the stage that waits for no other is the one that hangs") {
  const Placement straight = Placement::looping(3, 1);
  CHECK(hanging(straight, {{0, 0, {}}, {0, 1, {forward(0)}}, {0, 2, {forward(0)}}}) == Entries{1});
  CHECK(hanging(straight, {{0, 0, {backward(1), forward(4)}}, {0, 1, {backward(1)}}, {0, 2, {backward(1)}}}) == Entries{2});
  // Another microbatch, and the same one in another replica, are no reason to wait.
  CHECK(hanging(straight, {{0, 0, {forward(3)}}, {0, 1, {forward(2)}}, {0, 2, {}}}) == Entries{0, 1});
  CHECK(hanging(straight, {{0, 0, {forward(0)}}, {1, 1, {forward(0)}}}) == Entries{0, 1});
  CHECK(hanging(straight, {{0, 0, {}}, {0, 1, {}}, {0, 2, {}}}).empty());
}

TEST_CASE("replicas that wait in a sum for one that hangs are not named") {
  const Placement straight = Placement::looping(2, 1);
  CHECK(hanging(straight,
                {{0, 0, {reduce, norm}}, {0, 1, {reduce, norm}}, {1, 0, {backward(0), forward(2)}}, {1, 1, {backward(0)}}}) ==
        Entries{3});
  CHECK(hanging(straight, {{0, 0, {reduce}}, {0, 1, {}}, {1, 0, {reduce}}, {1, 1, {}}}) == Entries{0, 2});
}

TEST_CASE("chunks wait for their neighbours along the model, on whichever stage these are") {
  const Placement v_shape = Placement::v_shape(2);  // virtual stages: 0, 1, 1, 0
  CHECK(hanging(v_shape, {{0, 0, {forward(0, 1)}}, {0, 1, {forward(0, 1)}}}) == Entries{1});
  CHECK(hanging(v_shape, {{0, 0, {backward(0, 1)}}, {0, 1, {backward(0, 1)}}}) == Entries{0});
}
