#include "data/samples/split.hpp"

#include <algorithm>
#include <set>

#include "catch.hpp"
#include "core/error.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;

namespace {

// Samples that contain their own numbers.
std::shared_ptr<const Dataset> numbered(const TempFolder& folder, int rows) {
  std::string text;
  for (int row = 0; row < rows; ++row) text += "{\"input_ids\": [" + std::to_string(row) + ", 0]}\n";
  DatasetOptions options;
  options.inputs = {{folder.write("rows.jsonl", text), {}}};
  options.vocabulary = 1000;
  return open_dataset(options);
}

std::vector<std::int32_t> numbers(const Dataset& data) {
  std::vector<std::int32_t> all;
  for (std::int64_t i = 0; i < data.size(); ++i) all.push_back(data.read(i).front());
  return all;
}

}  // namespace

TEST_CASE("a split puts every sample in one part, in the order of the whole") {
  const TempFolder folder;
  const auto whole = numbered(folder, 200);
  for (const double share : {0.001, 0.1, 0.5, 0.9999}) {
    const DataSplit split = split_dataset(whole, share, 7);
    const auto training = numbers(*split.training), evaluation = numbers(*split.evaluation);
    CHECK(evaluation.size() == static_cast<std::size_t>(std::clamp(static_cast<int>(share * 200 + 0.5), 1, 199)));
    CHECK(std::is_sorted(training.begin(), training.end()));
    CHECK(std::is_sorted(evaluation.begin(), evaluation.end()));
    std::set<std::int32_t> all(training.begin(), training.end());
    all.insert(evaluation.begin(), evaluation.end());
    CHECK(all.size() == 200);
    CHECK(training.size() + evaluation.size() == 200);
    CHECK(split.training->read(split.training->size() + 2) == split.training->read(2));  // the next epoch
  }
}

TEST_CASE("a split follows from the seed, and its parts are other data than the whole") {
  const TempFolder folder;
  const auto whole = numbered(folder, 100);
  const DataSplit first = split_dataset(whole, 0.2, 7), again = split_dataset(whole, 0.2, 7),
                  other = split_dataset(whole, 0.2, 8);
  CHECK(numbers(*first.evaluation) == numbers(*again.evaluation));
  CHECK(numbers(*first.evaluation) != numbers(*other.evaluation));
  const auto drawn = numbers(*first.evaluation);
  CHECK((drawn.front() < 20 && drawn.back() >= 80));  // from the whole range
  CHECK(first.training->content() == again.training->content());
  CHECK(first.training->content() != other.training->content());
  CHECK(first.training->content() != first.evaluation->content());
  CHECK(first.training->content() != whole->content());
}

TEST_CASE("one sample cannot be split") {
  const TempFolder folder;
  const auto one = numbered(folder, 1);
  try {
    split_dataset(one, 0.5, 0);
    FAIL("split");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK(error.setting()->name == "split");
  }
}
