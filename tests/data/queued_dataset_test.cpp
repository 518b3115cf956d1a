#include "data/samples/queued_dataset.hpp"
#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;

TEST_CASE("a queued dataset gives the samples in the order in which they were pushed") {
  QueuedDataset dataset(4);
  dataset.push({{1, 2, 3}, {2, 3, not_counted}, {}});
  dataset.push({});
  CHECK(dataset.measure(0) == SampleSize{3, 2});
  CHECK(dataset.measure(1) == SampleSize{0, 0});
  Sample sample;
  dataset.read(0, sample);
  CHECK(sample.ids == std::vector<std::int32_t>{1, 2, 3});
  CHECK(sample.labels == std::vector<std::int32_t>{2, 3, not_counted});
  CHECK_THROWS_AS(dataset.read(2, sample), Error);
  CHECK_THROWS_AS(dataset.push({{1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}, {}}), Error);
}

TEST_CASE("a queued dataset drops samples, also those that a resumed run does not repeat") {
  QueuedDataset dataset(4);
  dataset.drop_before(6);
  dataset.push({{7}, {8}, {}});
  dataset.push({{8}, {9}, {}});
  Sample sample;
  dataset.read(7, sample);
  CHECK(sample.ids == std::vector<std::int32_t>{8});
  CHECK_THROWS_AS(dataset.read(5, sample), Error);
  dataset.drop_before(7);
  CHECK_THROWS_AS(dataset.read(6, sample), Error);
  dataset.push({{9}, {10}, {}});
  dataset.read(8, sample);
  CHECK(sample.labels == std::vector<std::int32_t>{10});
}
