// Second moments of 1-bit Adam after its warm-up, compared with those that AdamW would have, in double precision.
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "catch.hpp"
#include "ops/ops_fixture.hpp"

using namespace pipetrain;
using namespace pipetrain::testing;

namespace {

constexpr std::size_t moment_count = 200000;  // several ranges
constexpr SettleMomentsArgs adam{.beta1 = 0.9F, .beta2 = 0.95F, .eps = 1e-8F, .frozen_after = 1000};
using Numbers = std::vector<float>;

// The operation on a device with so many threads.
class Settling {
 public:
  Settling(const OpsBackend& backend, int threads)
      : device_(backend.make_device(0, threads)),
        stream_(device_->make_stream("test")),
        ops_(backend.make_ops(*stream_)),
        memory_(device_->allocate(2 * moment_count * sizeof(float), "a test's moments")) {}

  void settle(const Numbers& first, Numbers& second, bool raises) {
    const std::size_t bytes = moment_count * sizeof(float);
    SettleMomentsArgs args = adam;
    args.first = {memory_.data(), {static_cast<std::int64_t>(moment_count)}};
    args.second = {static_cast<float*>(memory_.data()) + moment_count, {static_cast<std::int64_t>(moment_count)}};
    args.raises = raises;
    stream_->copy(args.first.data, first.data(), bytes);
    stream_->copy(args.second.data, second.data(), bytes);
    ops_->settle_moments(args);
    stream_->copy(second.data(), args.second.data, bytes);
    stream_->synchronize();
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Ops> ops_;
  Buffer memory_;
};

double root_mean_square(const Numbers& numbers) {
  double sum = 0;
  for (const float number : numbers) sum += double{number} * number;
  return std::sqrt(sum / static_cast<double>(numbers.size()));
}

}  // namespace

TEST_CASE("frozen second moments are raised to a share of their mean, the others stay", "[ops][compress]") {
  Numbers squares(moment_count, 2.0F);
  for (std::size_t i = 0; i < moment_count; i += 4) squares[i] = 0;
  for (const OpsBackend* backend : ops_backends()) {
    INFO(backend->name());
    Numbers once = squares, again = squares;
    Settling(*backend, 1).settle(squares, once, true);
    for (std::size_t i = 0; i < moment_count; ++i) REQUIRE(once[i] == (i % 4 == 0 ? 0.015F : 2.0F));
    Settling(*backend, 3).settle(squares, again, true);
    CHECK(again == once);
  }
}

// Gradients are noise of another size for each weight; from some step on they are three times as large.
TEST_CASE("frozen second moments follow the size of the gradients as those of AdamW do, and keep their pattern",
          "[ops][compress]") {
  for (const OpsBackend* backend : ops_backends()) {
    INFO(backend->name());
    Settling settling(*backend, 2);
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    Numbers sizes(moment_count), first(moment_count), followed(moment_count), frozen;
    for (float& size : sizes) size = static_cast<float>(std::exp(normal(random)));
    std::vector<double> adamw(moment_count, 0);
    constexpr int settled = 200, steps = 320, grown = 240;
    for (int step = 1; step <= steps; ++step) {
      if (step > settled) settling.settle(first, followed, false);
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
}
