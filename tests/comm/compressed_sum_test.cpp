// Sums in blocks of few bits against a straightforward computation in double precision, member by member and element by
// element.
#include "comm/compressed/compressed_sum.hpp"

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

// Codes values + error as the paper says, in double precision; `error` becomes what is left.
std::vector<double> coded(BlockCode code, const std::vector<double>& values, std::vector<double>& error) {
  const auto block = static_cast<std::size_t>(block_format(code).elements);
  std::vector<double> result(values.size());
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const std::size_t end = std::min(begin + block, values.size());
    double largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(values[i] + error[i]));
    for (std::size_t i = begin; i < end; ++i) {
      const double value = values[i] + error[i];
      result[i] = std::nearbyint(value * 127 / largest) * largest / 127;
      error[i] = value - result[i];
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

  void sum(Members& values, const RowSplit& owners) {
    for (std::size_t rank = 0; rank < sums_.size(); ++rank) {
      float* const sum_error = sum_error_[rank].empty() ? nullptr : sum_error_[rank].data();
      sums_[rank]->sum(*streams_[rank], {values[rank].data(), elements_, error_[rank].data(), sum_error, owners});
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

TEST_CASE("compressed sums are those of the paper, with the errors of the calls before", "[compress]") {
  constexpr BlockCode code = BlockCode::int8;
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
      CHECK(most < 0.2);
      CHECK(apart <= count / 100);
    }
  }
}

TEST_CASE("what a code cannot express comes with later sums", "[compress]") {
  constexpr BlockCode code = BlockCode::int8;
  constexpr int calls = 400;
  const Members same = random_members(2, 3000, 7);
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
  CHECK(most < 5e-4);
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
  constexpr BlockCode code = BlockCode::int8;
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Numbers values(100, 1), error(100, 0.25F);
    values[7] = bad;
    std::vector<std::uint32_t> words(static_cast<std::size_t>(block_format(code).words));
    encode_block(code, values, error.data(), words.data());
    CHECK(error == Numbers(100, 0.25F));
    decode_block(code, words.data(), values, Decoding::write);
    CHECK(std::isnan(values[0]));
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
