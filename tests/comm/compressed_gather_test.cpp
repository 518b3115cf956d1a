#include "comm/compressed/compressed_gather.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "catch.hpp"
#include "comm/world.hpp"
#include "core/half.hpp"

namespace pipetrain::test {
namespace {

constexpr std::int64_t block = 256;
using Cuts = std::vector<std::int64_t>;

std::vector<float> drawn_weights(std::int64_t count) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> weights(static_cast<std::size_t>(count));
  for (float& weight : weights) weight = normal(random);
  return weights;
}

// Codes each segment's blocks in double precision.
std::vector<double> coded_segments(const std::vector<float>& weights, const Cuts& segments) {
  std::vector<double> result(weights.begin(), weights.end());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto end = i + 1 < segments.size() ? segments[i + 1] : static_cast<std::int64_t>(weights.size());
    for (std::int64_t begin = segments[i]; begin < end; begin += block) {
      const auto first = result.begin() + begin, last = result.begin() + std::min(begin + block, end);
      double largest = 0;
      std::for_each(first, last, [&](double value) { largest = std::max(largest, std::fabs(value)); });
      std::for_each(first, last, [&](double& value) { value = std::nearbyint(value * 127 / largest) * largest / 127; });
    }
  }
  return result;
}

// Each member has its range of the numbers, in full precision, in its own memory.
template <class Number>
std::vector<std::vector<Number>> gathered(const std::vector<Number>& numbers, DType dtype, const Cuts& segments,
                                          const Cuts& cuts) {
  const int members = static_cast<int>(cuts.size()) - 1;
  const CompressedGather::Blocks blocks(BlockCode::int8, segments, cuts);
  World world(Mesh({.tp = members}), 0, [](int rank) { return make_cpu_device(rank, 2); });
  std::vector<int> ranks;
  for (int rank = 0; rank < members; ++rank) ranks.push_back(rank);
  std::vector<std::vector<Number>> full(static_cast<std::size_t>(members), std::vector<Number>(numbers.size()));
  std::vector<std::unique_ptr<CompressedGather>> gathers;
  std::vector<std::unique_ptr<Stream>> streams;
  for (auto& [rank, group] : world.group(ranks)) {
    std::vector<Number>& own = full[static_cast<std::size_t>(rank)];
    const std::int64_t begin = cuts[static_cast<std::size_t>(rank)], end = cuts[static_cast<std::size_t>(rank) + 1];
    std::copy(numbers.begin() + begin, numbers.begin() + end, own.begin() + begin);
    gathers.push_back(std::make_unique<CompressedGather>(world.device(rank), std::move(group), BlockCode::int8, "test"));
    streams.push_back(world.device(rank).make_stream("test"));
    const Tensor all{own.data(), {static_cast<std::int64_t>(own.size())}, dtype};
    gathers.back()->gather(*streams.back(), all.row_range(begin, end), all, blocks);
  }
  for (const auto& stream : streams) stream->synchronize();
  return full;
}

}  // namespace

TEST_CASE("members gather the decoded numbers of all, their own too, in blocks that begin with each segment", "[compress]") {
  const Cuts segments = {0, 1000, 1001, 700'000};
  const std::int64_t count = 4'000'000;
  const std::vector<float> weights = drawn_weights(count);
  const std::vector<double> expected = coded_segments(weights, segments);
  const auto full = gathered(weights, DType::f32, segments, {0, 1001 + 300 * block, 700'000 + 4000 * block, count});
  CHECK(full[1] == full[0]);
  CHECK(full[2] == full[0]);
  CHECK(gathered(weights, DType::f32, segments, {0, 0, count}).front() == full[0]);
  std::size_t apart = 0;  // whose rounding went the other way in fp32
  for (std::size_t i = 0; i < expected.size(); ++i) apart += std::fabs(full[0][i] - expected[i]) > 1e-5 ? 1 : 0;
  CHECK(apart < expected.size() / 1000);
}

TEST_CASE("numbers in 16 bits are gathered as their values in fp32 are, and rounded", "[compress]") {
  const std::vector<float> weights = drawn_weights(5000);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto narrow = [&](float value) { return dtype == DType::bf16 ? to_bf16(value) : to_f16(value); };
    const auto wide = [&](std::uint16_t bits) { return dtype == DType::bf16 ? from_bf16(bits) : from_f16(bits); };
    std::vector<std::uint16_t> bits, expected;
    std::vector<float> values;
    for (const float weight : weights) {
      bits.push_back(narrow(weight));
      values.push_back(wide(bits.back()));
    }
    const Cuts cuts = {0, 4 * block, 5000};
    const auto full = gathered(values, DType::f32, {0}, cuts);
    for (const float value : full.front()) expected.push_back(narrow(value));
    CHECK(gathered(bits, dtype, {0}, cuts).back() == expected);
  }
}

}  // namespace pipetrain::test
