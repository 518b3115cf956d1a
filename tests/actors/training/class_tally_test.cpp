#include "actors/training/run/class_tally.hpp"

#include "catch.hpp"

using namespace pipetrain;

TEST_CASE("accuracy and F1 of two classes are those of class 1") {
  ClassTally tally(2);
  for (const auto& [truth, said, times] : {std::tuple{1, 1, 3}, {1, 0, 2}, {0, 1, 1}, {0, 0, 4}})
    for (int i = 0; i < times; ++i) tally.add(truth, said);
  CHECK(tally.accuracy() == Approx(0.7));
  CHECK(tally.f1() == Approx(2 * 3.0 / (2 * 3 + 1 + 2)));
  ClassTally never(2);
  never.add(0, 0);
  CHECK(never.accuracy() == 1);
  CHECK(never.f1() == 0);
}

TEST_CASE("F1 of more classes is the mean over those that occur") {
  ClassTally tally(4);  // class 3 never occurs
  tally.add(0, 0);
  tally.add(1, 0);
  tally.add(1, 1);
  tally.add(2, 1);
  CHECK(tally.accuracy() == Approx(0.5));
  CHECK(tally.f1() == Approx((2.0 / 3 + 0.5 + 0) / 3));
}
