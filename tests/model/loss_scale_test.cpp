#include "model/optimizer/loss_scale.hpp"

#include "catch.hpp"

using pipetrain::LossScale;
using pipetrain::LossScaleState;

TEST_CASE("a loss scale doubles after a window without overflow", "[model]") {
  LossScale scale({.dynamic = true, .initial = 8, .window = 3});
  for (int step = 0; step < 2; ++step) scale.applied();
  CHECK(scale.value() == 8);
  scale.applied();
  CHECK(scale.value() == 16);
  for (int step = 0; step < 3; ++step) scale.applied();
  CHECK(scale.value() == 32);
}

TEST_CASE("a loss scale halves with every overflow once there were as many as the hysteresis", "[model]") {
  LossScale scale({.dynamic = true, .initial = 64, .window = 2, .hysteresis = 2, .minimum = 16});
  CHECK(scale.overflowed());
  CHECK(scale.value() == 64);
  scale.applied();
  CHECK(scale.overflowed());
  CHECK(scale.value() == 32);
  CHECK(scale.overflowed());
  CHECK(scale.value() == 16);
  CHECK_FALSE(scale.overflowed());  // it can fall no further
  CHECK(scale.value() == 16);
  scale.applied();
  scale.applied();
  CHECK(scale.value() == 32);
  CHECK(scale.overflowed());  // doubling reset the count of overflows
  CHECK(scale.value() == 32);
}

TEST_CASE("an overflow starts the window anew", "[model]") {
  LossScale scale({.dynamic = true, .initial = 8, .window = 3, .hysteresis = 5});
  scale.applied();
  scale.applied();
  CHECK(scale.overflowed());
  scale.applied();
  scale.applied();
  CHECK(scale.value() == 8);
  scale.applied();
  CHECK(scale.value() == 16);
}

TEST_CASE("a static loss scale never changes", "[model]") {
  LossScale scale({.initial = 128, .window = 1});
  for (int step = 0; step < 10; ++step) scale.applied();
  CHECK(scale.value() == 128);
}

TEST_CASE("a loss scale resumes from its saved state", "[model]") {
  const pipetrain::LossScaleSettings settings{.dynamic = true, .initial = 1024, .window = 4, .hysteresis = 3};
  LossScale whole(settings), first(settings);
  const auto step = [](LossScale& scale, int number) { number % 5 == 2 ? (void)scale.overflowed() : scale.applied(); };
  for (int number = 0; number < 30; ++number) step(whole, number);
  for (int number = 0; number < 13; ++number) step(first, number);
  LossScale second(settings, first.state());
  for (int number = 13; number < 30; ++number) step(second, number);
  CHECK(second.state() == whole.state());
  CHECK(whole.value() != 1024);
}
