// Steps of 1-bit Adam by the product's sums and updates, against the algorithm of Tang et al. 2021 with signs of moments that
// are divided by the roots of their variances, written down one number after the other in double precision.
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "catch.hpp"
#include "comm/compressed/compressed_sum.hpp"
#include "comm/world.hpp"
#include "ops/ops.hpp"

using namespace pipetrain;

namespace {

constexpr std::int64_t elements = 3000, block_elements = 1024;
constexpr std::size_t count = elements;
constexpr int members = 2, frozen_after = 7;
constexpr float beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F, decay = 0.1F, lr = 1e-2F;
using Numbers = std::vector<float>;
using Doubles = std::vector<double>;

Numbers drawn_numbers(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Numbers numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

Numbers drawn_variances() {
  Numbers numbers = drawn_numbers(99);
  for (float& number : numbers) number = number * number + 0.1F;
  return numbers;
}

// Signs with the mean magnitude of each block; the error becomes what is left.
Doubles signs_of(const Doubles& values, Doubles& error) {
  Doubles result(count);
  for (std::size_t begin = 0; begin < count; begin += block_elements) {
    const std::size_t end = std::min<std::size_t>(begin + block_elements, count);
    double total = 0;
    for (std::size_t i = begin; i < end; ++i) total += std::abs(values[i] + error[i]);
    for (std::size_t i = begin; i < end; ++i) {
      const double sum = values[i] + error[i];
      result[i] = std::copysign(total / static_cast<double>(end - begin), sum);
      error[i] = sum - result[i];
    }
  }
  return result;
}

class SequentialAdam {
 public:
  explicit SequentialAdam(const Numbers& weights) : weights_(weights.begin(), weights.end()) {
    for (std::size_t i = 0; i < count; ++i)
      roots_[i] = std::sqrt(variances_[i] / (1 - std::pow(double{beta2}, frozen_after))) + eps;
  }

  void step(const std::vector<Numbers>& grads, std::int64_t number, double clip) {
    Doubles sum(count, 0);
    for (std::size_t member = 0; member < members; ++member) {
      Doubles own(count);
      for (std::size_t i = 0; i < count; ++i)
        own[i] = (double{beta1} * moments_[i] / members + (1 - double{beta1}) * grads[member][i]) / roots_[i];
      const Doubles sent = signs_of(own, errors_[member]);
      for (std::size_t i = 0; i < count; ++i) sum[i] += sent[i];
    }
    moments_ = signs_of(sum, sum_error_);
    for (std::size_t i = 0; i < count; ++i) {
      moments_[i] *= clip * roots_[i];
      const double m = moments_[i] / (1 - std::pow(double{beta1}, number));
      weights_[i] -= lr * (m / roots_[i] + decay * weights_[i]);
    }
  }
  const Doubles& weights() const { return weights_; }

 private:
  Doubles weights_, moments_ = Doubles(count), sum_error_ = Doubles(count);
  Numbers variances_ = drawn_variances();
  Doubles roots_ = Doubles(count);
  std::vector<Doubles> errors_ = std::vector<Doubles>(members, Doubles(count));
};

// The states of a replica.
struct AdamReplica {
  Numbers weights, moments = Numbers(count), variances = drawn_variances(), error = Numbers(count), sum_error = Numbers(count);
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<CompressedSum> sum;
};

Tensor tensor_of(Numbers& numbers) { return {numbers.data(), {elements}}; }

}  // namespace

TEST_CASE("replicas that exchange first moments in 1 bit follow 1-bit Adam in double precision", "[compress]") {
  World world(Mesh({.tp = members}), 0, [](int rank) { return make_cpu_device(rank, 1); });
  std::vector<AdamReplica> replicas(members);
  for (auto& [rank, group] : world.group({0, 1})) {
    AdamReplica& own = replicas[static_cast<std::size_t>(rank)];
    own.weights = drawn_numbers(1);
    own.stream = world.device(rank).make_stream("test");
    own.ops = make_cpu_ops(*own.stream);
    own.sum = std::make_unique<CompressedSum>(world.device(rank), std::move(group), BlockCode::sign, "test");
  }
  SequentialAdam reference(replicas[0].weights);
  for (std::int64_t step = frozen_after + 1; step <= frozen_after + 8; ++step) {
    const float clip = step % 2 == 0 ? 1.0F : 0.5F;
    std::vector<Numbers> grads = {drawn_numbers(static_cast<unsigned>(2 * step)),
                                  drawn_numbers(static_cast<unsigned>(2 * step + 1))};
    reference.step(grads, step, clip);
    for (std::size_t i = 0; i < members; ++i) {
      AdamReplica& own = replicas[i];
      own.sum->sum(*own.stream,
                   {grads[i].data(), elements, own.error.data(), own.sum_error.data(),
                    RowSplit(blocks_of(BlockCode::sign, elements), members), own.moments.data(), 1 - beta1, beta1 / members,
                    BlockScales{own.variances.data(), adam_correction(beta2, frozen_after), eps}});
      const AdamW rule{lr, beta1, beta2, eps, decay, step, clip};
      own.ops->update({.weight = tensor_of(own.weights),
                       .grad = tensor_of(grads[i]),
                       .states = {tensor_of(own.moments), tensor_of(own.variances)},
                       .rule = FrozenAdamW{rule, frozen_after}});
    }
    for (const AdamReplica& own : replicas) own.stream->synchronize();
    REQUIRE(replicas[1].weights == replicas[0].weights);
    CHECK(replicas[0].variances == drawn_variances());
    double most = 0;
    for (std::size_t i = 0; i < count; ++i) most = std::max(most, std::abs(replicas[0].weights[i] - reference.weights()[i]));
    CHECK(most < 1e-5);
  }
}
