// Moments in 8 bits: the tables that find codes, and the updates of all backends.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "catch.hpp"
#include "ops/eight_bit_search.hpp"
#include "ops/ops_bench.hpp"
#include "skip.hpp"

namespace pipetrain::testing {
namespace {

// Every value at which a table could be wrong, and many others.
std::vector<float> searched_values(const EightBitSearch& search) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values{0.0F, -0.0F, 1.0F, -1.0F, 1e-30F, -1e-30F, 1e-45F, -1e-45F, 3.0F, -3.0F, infinity, -infinity, NAN};
  for (const float last : search.last)
    for (const float value : {last, std::nextafter(last, -infinity), std::nextafter(last, infinity)}) values.push_back(value);
  for (int bin = 0; bin < EightBitSearch::bins; ++bin)
    for (const float end : {EightBitSearch::smallest_of(bin), EightBitSearch::largest_of(bin)})
      values.push_back(end), values.push_back(-end);
  std::mt19937 random(7);
  std::uniform_real_distribution<float> even(-1, 1), exponent(-30, 1);
  for (int i = 0; i < 1000000; ++i) {
    values.push_back(even(random));
    values.push_back(std::copysign(std::exp2(exponent(random)), even(random)));
  }
  return values;
}

TEST_CASE("the tables of moments in 8 bits find the nearest code of every value", "[ops]") {
  for (const bool has_signs : {true, false}) {
    const EightBitMap map = eight_bit_map(has_signs);
    const auto search = std::make_unique<EightBitSearch>(map);
    int wrong = 0;
    for (const float value : searched_values(*search)) wrong += search->code(value) != nearest_code(map.data(), value);
    CHECK(wrong == 0);
  }
}

// A tensor of elements after `skipped` others, with its moments in 8 bits.
class EightBitTensor {
 public:
  EightBitTensor(Bench& b, std::int64_t count, std::int64_t skipped, DType rounded)
      : b_(b), count_(count), all_weights_(b.put_f32(b.draw_f32({skipped + count}))), all_grads_(draw_grads(skipped)) {
    args_.weight = after(all_weights_, skipped), args_.grad = after(all_grads_, skipped);
    rounded_ = b.rank.poisoned({skipped + count}, rounded), args_.rounded = after(rounded_, skipped);
    for (std::size_t i = 0; i < 2; ++i) {
      codes_[i] = b.rank.put(Values({(skipped + count + 3) / 4}), DType::i32);
      magnitudes_[i] = b.put_f32(Values({(count + eight_bit_block - 1) / eight_bit_block}));
      args_.states[i] = {static_cast<std::uint8_t*>(codes_[i].data) + skipped, static_cast<float*>(magnitudes_[i].data)};
    }
  }

  std::vector<unsigned char> step(const AdamW& rule, bool preview = false) {
    args_.rule = rule, args_.preview = preview;
    b_.team.run([&](TestRank& r) { r.ops().eight_bit_update(args_); });
    return b_.rank.bytes(rounded_);
  }

  Values weights() { return b_.rank.get(all_weights_); }
  std::vector<std::vector<unsigned char>> moments() {
    return {b_.rank.bytes(codes_[0]), b_.rank.bytes(codes_[1]), b_.rank.bytes(magnitudes_[0]), b_.rank.bytes(magnitudes_[1])};
  }

 private:
  // Gradients of all sizes, and blocks of zeros.
  Tensor draw_grads(std::int64_t skipped) {
    Values grads = b_.draw_f32({skipped + count_});
    for (std::size_t i = 0; i < grads.data.size(); ++i) {
      const auto block = i / static_cast<std::size_t>(eight_bit_block);
      const double factor = block % 7 == 3 ? 0 : std::pow(10.0, static_cast<double>(i % 11 + block % 5) - 9);
      grads.data[i] = static_cast<float>(grads.data[i] * factor);
    }
    return b_.put_f32(grads);
  }
  static Tensor after(const Tensor& all, std::int64_t skipped) {
    Tensor rest = all;
    rest.shape = {all.elements() - skipped};
    rest.data = static_cast<char*>(all.data) + static_cast<std::size_t>(skipped) * size_of(all.dtype);
    return rest;
  }

  Bench& b_;
  std::int64_t count_;
  Tensor all_weights_, all_grads_, rounded_, codes_[2], magnitudes_[2];
  EightBitUpdateArgs args_;
};

constexpr AdamW eight_bit_rule{
    .lr = 0.01F, .beta1 = 0.9F, .beta2 = 0.95F, .eps = 1e-8F, .weight_decay = 0.1F, .step = 3, .grad_scale = 0.5F};

TEST_CASE("a preview of a step with moments in 8 bits has the step's bits and changes nothing else", "[ops]") {
  on_each_backend_once([](Bench& b) {
    for (const std::int64_t count : {256, 5 * 256 + 77}) {
      for (const std::int64_t skipped : {0, 1}) {
        EightBitTensor tensor(b, count, skipped, DType::bf16);
        tensor.step(eight_bit_rule);
        const Values weights = tensor.weights();
        const auto moments = tensor.moments();
        const auto preview = tensor.step(eight_bit_rule, true);
        CHECK((tensor.weights().data == weights.data));
        CHECK((tensor.moments() == moments));
        CHECK((tensor.step(eight_bit_rule) == preview));
      }
    }
  });
}

// With betas of zero the moments are the gradient and its square on every backend, to the bit, and so must be their codes.
TEST_CASE("GPUs step moments in 8 bits as CPUs do, in tensors of many blocks, aligned or not", "[gpu][optimizer]") {
  AdamW exact = eight_bit_rule;
  exact.beta1 = exact.beta2 = 0;
  exact.grad_scale = 1;
  if (ops_backends().size() < 2) return static_cast<void>(test::needs_gpus(0));
  for (const std::int64_t count : {1, 255, 256, 5 * 256 + 77, 3000000}) {
    for (const std::int64_t skipped : {0, 1, 4}) {
      INFO(count << " elements after " << skipped);
      std::optional<std::vector<std::vector<unsigned char>>> moments;
      std::optional<Values> weights;
      on_each_backend_once([&](Bench& b) {
        EightBitTensor tensor(b, count, skipped, DType::bf16);
        tensor.step(exact);
        if (!moments) moments = tensor.moments();
        CHECK((tensor.moments() == *moments));
        for (int step = 0; step < 2; ++step) tensor.step(eight_bit_rule);
        if (!weights) weights = tensor.weights();
        CHECK(relative_error(tensor.weights(), *weights) < statistics_tolerance);
        CHECK(b.rank.guards_intact());
      });
    }
  }
}

}  // namespace
}  // namespace pipetrain::testing
