// Device memory of many sizes is copied to host memory and back in pieces.
#include "actors/training/copies/staged_transfers.hpp"

#include <atomic>
#include <random>

#include "actors/training/copies/state_copies.hpp"
#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;

namespace {

struct StagedParts {
  std::vector<std::vector<float>> sources, targets;
  std::size_t bytes = 0;

  explicit StagedParts(const std::vector<std::size_t>& lengths) {
    std::mt19937 random(7);
    for (const std::size_t length : lengths) {
      for (float& value : sources.emplace_back(length)) value = static_cast<float>(random());
      targets.emplace_back(length);
      bytes += length * sizeof(float);
    }
  }
  std::vector<StagedTransfers::Part> parts() {
    std::vector<StagedTransfers::Part> parts;
    for (std::size_t i = 0; i < sources.size(); ++i)
      parts.push_back({sources[i].data(), targets[i].data(), sources[i].size() * sizeof(float)});
    return parts;
  }
};

}  // namespace

TEST_CASE("device memory is copied to the host and back in pieces", "[copies]") {
  const auto device = make_cpu_device(0, 2);
  // The third list fills more than three pieces, and its parts begin and end within pieces.
  StagedParts data(GENERATE(values<std::vector<std::size_t>>({{}, {1, 0, 3}, {7, 20'000'001, 3'000'000, 5, 33'000'000, 1}})));
  StagedTransfers transfers(*device, data.bytes);
  std::atomic<int> done = 0;
  transfers.read(data.parts(), [&] { ++done; });
  transfers.wait();
  CHECK(done == 1);
  CHECK(data.targets == data.sources);
  for (auto& source : data.sources)
    for (float& value : source) value *= 2;
  transfers.read(data.parts(), [&] { ++done; });
  transfers.wait_until_read();
  const auto expected = data.sources;
  for (auto& source : data.sources) source.assign(source.size(), -1);  // nobody reads it any more
  transfers.wait();
  CHECK(done == 2);
  CHECK(data.targets == expected);
  for (std::size_t i = 0; i < data.sources.size(); ++i)
    transfers.write(data.sources[i].data(), data.targets[i].data(), data.targets[i].size() * sizeof(float));
  CHECK(data.sources == expected);
}

TEST_CASE("copies in shared memory are those of the process that made them", "[copies]") {
  constexpr std::size_t elements = 1000;
  StateCopies made(CopyMemory::shared);
  made.reserve(elements);
  StateCopies opened(made.shared()->key(), made.elements());
  CHECK(opened.steps().empty());
  for (std::int64_t step = 5; step < 8; ++step) {
    StateCopy* const copy = made.begin(step, step - 1, elements);
    REQUIRE(copy != nullptr);
    CHECK(opened.of(step) == nullptr);
    std::fill(copy->values.begin(), copy->values.end(), static_cast<float>(step));
    copy->set_whole();
    const StateCopy* const seen = opened.of(step);
    REQUIRE(seen != nullptr);
    CHECK(seen->applied_steps() == step - 1);
    CHECK(seen->values[elements - 1] == static_cast<float>(step));
  }
  CHECK(opened.steps() == std::vector<std::int64_t>{7, 6});
  made.begin(8, 7, elements);  // is never whole
  CHECK(opened.steps() == std::vector<std::int64_t>{7});
  CHECK(opened.begin(7, 6, elements) == nullptr);
  opened.begin(8, 7, elements)->set_whole();  // the process that opened the copies continues them
  CHECK(made.of(8) != nullptr);
  CHECK_THROWS_AS(StateCopies(made.shared()->key(), 10 * elements), Error);
}
