// Sums in blocks of few bits against a straightforward computation in double precision, member by member and element by
// element.
#include "comm/compressed/compressed_sum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "catch.hpp"
#include "comm/compressed/block_codes.hpp"
#include "comm/world.hpp"

namespace pipetrain::test {
namespace {

using Numbers = std::vector<float>;
using Members = std::vector<Numbers>;

Members random_members(int members, std::int64_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Members made;
  for (int member = 0; member < members; ++member) {
    Numbers& own = made.emplace_back(static_cast<std::size_t>(elements));
    for (float& value : own) value = normal(random);
  }
  return made;
}

// Codes a block of sums as the papers say, in double precision.
std::vector<double> coded_block(BlockCode code, const std::vector<double>& sums) {
  double largest = 0, total = 0;
  for (const double sum : sums) {
    largest = std::max(largest, std::fabs(sum));
    total += std::fabs(sum);
  }
  std::vector<double> coded;
  for (const double sum : sums) {
    const double mean =
        std::signbit(sum) ? -total / static_cast<double>(sums.size()) : total / static_cast<double>(sums.size());
    coded.push_back(code == BlockCode::sign ? mean : std::nearbyint(sum * 127 / largest) * largest / 127);
  }
  return coded;
}

// Codes values + error block by block; `error` becomes what is left.
std::vector<double> coded(BlockCode code, const std::vector<double>& values, std::vector<double>& error) {
  const auto block = static_cast<std::size_t>(block_format(code).elements);
  std::vector<double> result(values.size());
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const std::size_t end = std::min(begin + block, values.size());
    std::vector<double> sums;
    for (std::size_t i = begin; i < end; ++i) sums.push_back(values[i] + error[i]);
    const std::vector<double> own = coded_block(code, sums);
    for (std::size_t i = begin; i < end; ++i) {
      result[i] = own[i - begin];
      error[i] = sums[i - begin] - result[i];
    }
  }
  return result;
}

// The members of a group in this process, with their errors.
class Summing {
 public:
  Summing(BlockCode code, int members, std::int64_t elements, bool for_all)
      : code_(code), elements_(elements), world_(Mesh({.tp = members}), 0, [](int rank) { return make_cpu_device(rank, 1); }) {
    std::vector<int> ranks;
    for (int rank = 0; rank < members; ++rank) ranks.push_back(rank);
    const auto count = static_cast<std::size_t>(elements);
    for (auto& [rank, group] : world_.group(ranks)) {
      sums_.push_back(std::make_unique<CompressedSum>(world_.device(rank), std::move(group), code, "test"));
      streams_.push_back(world_.device(rank).make_stream("test"));
      error_.emplace_back(count);
      sum_error_.emplace_back(for_all ? count : 0);
    }
  }

  // The members sum these in place of the values: fresh x value + kept x average.
  struct Averages {
    const float* values = nullptr;
    float fresh = 1, kept = 0;
  };
  void sum(Members& values, const RowSplit& owners) { sum(values, owners, {}); }
  void sum(Members& values, const RowSplit& owners, const Averages& averages) {
    for (std::size_t rank = 0; rank < sums_.size(); ++rank) {
      float* const sum_error = sum_error_[rank].empty() ? nullptr : sum_error_[rank].data();
      sums_[rank]->sum(*streams_[rank], {values[rank].data(), elements_, error_[rank].data(), sum_error, owners,
                                         averages.values, averages.fresh, averages.kept});
    }
    for (const auto& stream : streams_) stream->synchronize();
  }
  RowSplit even() const { return RowSplit(blocks_of(code_, elements_), static_cast<int>(sums_.size())); }

 private:
  BlockCode code_;
  std::int64_t elements_;
  World world_;
  std::vector<std::unique_ptr<CompressedSum>> sums_;
  std::vector<std::unique_ptr<Stream>> streams_;
  Members error_, sum_error_;
};

std::vector<double> as_doubles(const Numbers& values) { return {values.begin(), values.end()}; }

}  // namespace

TEST_CASE("compressed sums are those of the papers, with the errors of the calls before", "[compress]") {
  const auto code = GENERATE(BlockCode::int8, BlockCode::sign);
  for (const std::int64_t elements : {1, 255, 1025, 5000}) {
    constexpr int members = 3;
    INFO(name_of(code) << ", " << elements << " elements");
    Summing summing(code, members, elements, true);
    const auto count = static_cast<std::size_t>(elements);
    std::vector<std::vector<double>> error(members, std::vector<double>(count));
    std::vector<double> sum_error(count);
    for (unsigned call = 0; call < 3; ++call) {
      Members values = random_members(members, elements, call);
      std::vector<double> expected(count);
      for (std::size_t member = 0; member < members; ++member) {
        const auto sent = coded(code, as_doubles(values[member]), error[member]);
        for (std::size_t i = 0; i < count; ++i) expected[i] += sent[i];
      }
      expected = coded(code, expected, sum_error);
      summing.sum(values, summing.even());
      CHECK(values[1] == values[0]);
      CHECK(values[2] == values[0]);
      double most = 0;
      std::size_t apart = 0;  // whose rounding went the other way in fp32
      for (std::size_t i = 0; i < count; ++i) {
        const double difference = std::fabs(values[0][i] - expected[i]);
        most = std::max(most, difference);
        apart += difference > 1e-4 ? 1 : 0;
      }
      CHECK(most < (code == BlockCode::sign ? 10 : 0.2));  // the sign of a sum near 0 may differ
      CHECK(apart <= count / 100);
    }
  }
}

TEST_CASE("what a code cannot express comes with later sums", "[compress]") {
  const auto code = GENERATE(BlockCode::int8, BlockCode::sign);
  constexpr int calls = 400;
  Members same = random_members(2, 3000, 7);
  for (Numbers& own : same)  // the errors of numbers far above the mean magnitude of their block take long to be sent in 1 bit
    for (float& value : own) value = std::clamp(value, -1.0F, 1.0F);
  Summing summing(code, 2, 3000, true);
  std::vector<double> total(3000);
  for (int call = 0; call < calls; ++call) {
    Members values = same;
    summing.sum(values, summing.even());
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += values[0][i];
  }
  double most = 0;
  for (std::size_t i = 0; i < total.size(); ++i) most = std::max(most, std::fabs(total[i] / calls - same[0][i] - same[1][i]));
  INFO(name_of(code));
  CHECK(most < (code == BlockCode::sign ? 0.05 : 5e-4));
}

TEST_CASE("owners alone get their sums, whichever blocks they own, in several pieces", "[compress]") {
  const std::int64_t elements = 9000 * 256 + 17;
  const Members same = random_members(2, elements, 3);
  Members first = same, second = same;
  Summing even(BlockCode::int8, 2, elements, false), uneven(BlockCode::int8, 2, elements, false);
  even.sum(first, even.even());
  uneven.sum(second, RowSplit(std::vector<std::int64_t>{0, 256, 9001}));
  std::size_t apart = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(elements); ++i) {
    const float by_even = first[i < 4501 * 256 ? 0 : 1][i], by_uneven = second[i < 256 * 256 ? 0 : 1][i];
    apart += by_even != by_uneven ? 1 : 0;
  }
  CHECK(apart == 0);
}

TEST_CASE("a block with a number that is not finite decodes to NaN and keeps its errors", "[compress]") {
  const auto code = GENERATE(BlockCode::int8, BlockCode::sign);
  constexpr float largest = std::numeric_limits<float>::max();  // the sum of magnitudes overflows
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), largest}) {
    if (bad == largest && code != BlockCode::sign) continue;
    Numbers values(100, bad == largest ? bad : 1), error(100, 0.25F);
    values[7] = bad;
    std::vector<std::uint32_t> words(static_cast<std::size_t>(block_format(code).words));
    encode_block(code, values, error.data(), words.data());
    CHECK(error == Numbers(100, 0.25F));
    decode_block(code, words.data(), values, Decoding::write);
    CHECK(std::isnan(values[0]));
  }
}

TEST_CASE("members sum averages of what they had and what they have", "[compress]") {
  constexpr std::int64_t elements = 3000;
  constexpr float beta = 0.75F;
  const Numbers had = random_members(1, elements, 5).front();
  Summing averaging(BlockCode::sign, 2, elements, true), plain(BlockCode::sign, 2, elements, true);
  for (unsigned call = 0; call < 3; ++call) {
    Members values = random_members(2, elements, call), expected = values;
    for (Numbers& own : expected)
      for (std::size_t i = 0; i < own.size(); ++i) own[i] = (1 - beta) * own[i] + beta / 2 * had[i];
    averaging.sum(values, averaging.even(), {had.data(), 1 - beta, beta / 2});
    plain.sum(expected, plain.even());
    CHECK(values == expected);
  }
}

TEST_CASE("blocks of zeros and of tiny numbers lose nothing", "[compress]") {
  for (const float tiny : {0.0F, 1e-40F, 1e-37F}) {
    Numbers values(256, tiny), error(256, 0), decoded(256);
    std::vector<std::uint32_t> words(65);
    encode_block(BlockCode::int8, values, error.data(), words.data());
    decode_block(BlockCode::int8, words.data(), decoded, Decoding::write);
    CHECK(decoded[5] + error[5] == tiny);
  }
}

}  // namespace pipetrain::test
