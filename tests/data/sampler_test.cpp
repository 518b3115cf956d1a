#include "data/samples/sampler.hpp"

#include <algorithm>
#include <set>

#include "catch.hpp"
#include "core/error.hpp"
#include "data/samples/permutation.hpp"

using namespace pipetrain;

TEST_CASE("a permutation hits every index once, whatever the size") {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097}) {
    const Permutation order(size, derive_key(7, 1));
    std::vector<bool> hit(static_cast<std::size_t>(size), false);
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t to = order(i);
      REQUIRE((to >= 0 && to < size));
      REQUIRE_FALSE(hit[static_cast<std::size_t>(to)]);
      hit[static_cast<std::size_t>(to)] = true;
    }
  }
}

TEST_CASE("every place of a small permutation is about equally likely") {
  constexpr int size = 6, keys = 12000;
  int counts[size][size] = {};
  for (std::uint64_t key = 0; key < keys; ++key) {
    const Permutation order(size, derive_key(key, 1));
    for (int i = 0; i < size; ++i) ++counts[i][order(i)];
  }
  for (const auto& row : counts)
    for (const int count : row) CHECK(std::abs(count - keys / size) < 250);  // 6 standard deviations
}

TEST_CASE("a large permutation leaves no neighbours together") {
  const Permutation order(1'000'000'000'000, derive_key(0, 1));
  std::int64_t near = 0;
  for (std::int64_t i = 0; i < 10000; ++i) near += std::abs(order(i) - order(i + 1)) < 1'000'000;
  CHECK(near < 10);
}

TEST_CASE("an epoch visits samples once and drops the last partial batch") {
  const bool shuffle = GENERATE(false, true);
  const Sampler sampler(23, {1, 2, 2}, shuffle, 3);
  REQUIRE(sampler.steps_per_epoch() == 5);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::int64_t> seen;
    for (std::int64_t step = 0; step < 5; ++step)
      for (const std::int64_t index : sampler.global_batch(5 * epoch + step)) {
        CHECK(index / 23 == epoch);
        CHECK(seen.insert(index % 23).second);
      }
    CHECK(seen.size() == 20);
    if (!shuffle) CHECK(*seen.rbegin() == 19);
  }
}

TEST_CASE("for evaluation every sample comes once, in order, and nothing after them") {
  const Sampler sampler = Sampler::once_in_order(23, {2, 2, 2});
  REQUIRE(sampler.steps_per_epoch() == 3);
  std::vector<std::int64_t> seen;
  for (std::int64_t step = 0; step < 4; ++step)
    for (std::int64_t replica = 0; replica < 2; ++replica)
      for (std::int64_t microbatch = 0; microbatch < 2; ++microbatch)
        for (const std::int64_t index : sampler.microbatch(step, replica, microbatch)) seen.push_back(index);
  REQUIRE(seen.size() == 32);
  for (std::int64_t i = 0; i < 32; ++i) CHECK(seen[static_cast<std::size_t>(i)] == (i < 23 ? i : Sampler::no_sample));
  CHECK(Sampler::once_in_order(1, {1, 4, 1}).steps_per_epoch() == 1);  // fewer than one batch
  CHECK(Sampler::once_in_order(8, {1, 4, 1}).steps_per_epoch() == 2);
}

TEST_CASE("without shuffle samples come in file order") {
  const Sampler sampler(10, {1, 3, 1}, false, 3);
  CHECK(sampler.global_batch(0) == std::vector<std::int64_t>{0, 1, 2});
  CHECK(sampler.global_batch(2) == std::vector<std::int64_t>{6, 7, 8});
  CHECK(sampler.global_batch(3) == std::vector<std::int64_t>{10, 11, 12});  // the second epoch
}

TEST_CASE("the order depends on seed and epoch, not on the shape of the batch") {
  const Sampler flat(1000, {1, 1, 24}, true, 9);
  for (const BatchShape shape : {BatchShape{2, 3, 4}, BatchShape{3, 8, 1}, BatchShape{1, 24, 1}, BatchShape{24, 1, 1}}) {
    const Sampler sampler(1000, shape, true, 9);
    for (const std::int64_t step : {0, 1, 40, 41, 1000}) {
      const auto batch = flat.global_batch(step);
      CHECK(sampler.global_batch(step) == batch);
      std::vector<std::int64_t> joined;
      for (std::int64_t replica = 0; replica < shape.dp; ++replica)
        for (std::int64_t m = 0; m < shape.microbatches; ++m) {
          const auto part = sampler.microbatch(step, replica, m);
          joined.insert(joined.end(), part.begin(), part.end());
        }
      CHECK(joined == batch);
    }
  }
  const auto first = flat.global_batch(0);
  CHECK(Sampler(1000, {1, 1, 24}, true, 10).global_batch(0) != first);
  auto next_epoch = flat.global_batch(flat.steps_per_epoch());
  for (auto& index : next_epoch) index -= 1000;
  CHECK(next_epoch != first);
}

TEST_CASE("the order is the same on every machine and in every version") {
  // Changing these numbers changes every shuffled run and breaks resumed ones.
  CHECK(Sampler(100, {1, 1, 8}, true, 0).global_batch(0) == std::vector<std::int64_t>{57, 18, 76, 84, 41, 83, 87, 73});
  CHECK(Sampler(100, {1, 1, 4}, true, 42).global_batch(30) == std::vector<std::int64_t>{123, 146, 116, 179});
}

TEST_CASE("fewer samples than a global batch are refused with the numbers") {
  try {
    Sampler(11, {2, 3, 2}, true, 0);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK_THAT(error.what(),
               Catch::Matchers::Contains("11 samples, too few for one global batch of 12 (dp 2 x microbatches 3 x "
                                         "microbatch 2)"));
  }
  CHECK_THROWS_AS(Sampler(11, {0, 1, 1}, true, 0), Error);
}
