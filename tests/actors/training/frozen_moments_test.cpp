// Second moments of 1-bit Adam after its warm-up, compared with those that AdamW would have, in double precision.
#include "actors/training/sums/frozen_moments.hpp"

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "catch.hpp"
#include "core/device.hpp"

using namespace pipetrain;

namespace {

constexpr std::size_t moment_count = 200000;  // several ranges
constexpr FrozenAdam adam{.beta1 = 0.9F, .beta2 = 0.95F, .eps = 1e-8F, .frozen_after = 1000};
using Numbers = std::vector<float>;

// Runs the work on a stream of a device with so many threads.
template <class Work>
void on_stream(int threads, const Work& work) {
  const auto device = make_cpu_device(0, threads);
  const auto stream = device->make_stream("test");
  work(cpu_stream(*stream));
  stream->synchronize();
}

double root_mean_square(const Numbers& numbers) {
  double sum = 0;
  for (const float number : numbers) sum += double{number} * number;
  return std::sqrt(sum / static_cast<double>(numbers.size()));
}

}  // namespace

TEST_CASE("frozen second moments are raised to a share of their mean, the others stay", "[compress]") {
  Numbers squares(moment_count, 2.0F);
  for (std::size_t i = 0; i < moment_count; i += 4) squares[i] = 0;
  Numbers once = squares;
  on_stream(1, [&](CpuStream& stream) { raise_least(stream, {nullptr, once.data(), moment_count}); });
  for (std::size_t i = 0; i < moment_count; ++i) REQUIRE(once[i] == (i % 4 == 0 ? 0.015F : 2.0F));
  on_stream(3, [&](CpuStream& stream) { raise_least(stream, {nullptr, squares.data(), moment_count}); });
  CHECK(squares == once);
}

// Gradients are noise of another size for each weight; from some step on they are three times as large.
TEST_CASE("frozen second moments follow the size of the gradients as those of AdamW do, and keep their pattern", "[compress]") {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  Numbers sizes(moment_count), first(moment_count), followed(moment_count), frozen;
  for (float& size : sizes) size = static_cast<float>(std::exp(normal(random)));
  std::vector<double> adamw(moment_count, 0);
  constexpr int settled = 200, steps = 320, grown = 240;
  for (int step = 1; step <= steps; ++step) {
    if (step > settled)
      on_stream(2, [&](CpuStream& stream) { follow_gradients(stream, {first.data(), followed.data(), moment_count}, adam); });
    for (std::size_t i = 0; i < moment_count; ++i) {
      const double grad = normal(random) * sizes[i] * (step > grown ? 3 : 1);
      first[i] = static_cast<float>(0.9 * first[i] + 0.1 * grad);
      adamw[i] = 0.95 * adamw[i] + 0.05 * grad * grad;
      if (step == settled) followed[i] = static_cast<float>(adamw[i]);
    }
    if (step == settled) frozen = followed;
  }
  for (std::size_t i = 1; i < moment_count; ++i)
    REQUIRE(followed[i] / frozen[i] == Approx(followed[0] / frozen[0]).epsilon(1e-3));
  Numbers quotients(moment_count), of_adamw(moment_count);
  for (std::size_t i = 0; i < moment_count; ++i) {
    quotients[i] = first[i] / std::sqrt(followed[i]);
    of_adamw[i] = first[i] / static_cast<float>(std::sqrt(adamw[i]));
  }
  CHECK(root_mean_square(quotients) == Approx(root_mean_square(of_adamw)).epsilon(0.1));
}
