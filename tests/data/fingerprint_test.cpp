// Different data has different fingerprints.
#include "data/samples/fingerprint.hpp"

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"
#include "data/open_dataset.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;

namespace {

std::uint64_t fingerprint(const std::vector<DataInput>& inputs) {
  DatasetOptions options;
  options.inputs = inputs;
  options.sequence_length = 3;
  return data_fingerprint(*open_dataset(options));
}
std::uint64_t fingerprint(const fs::path& path) { return fingerprint({{path, std::nullopt}}); }

// 1,000 rows, many more than the samples that could be looked at; `changed` has other content of the same length.
std::string rows(const std::string& key, int changed = -1) {
  std::string text;
  for (int row = 0; row < 1000; ++row) {
    const std::string number = std::to_string(100 + (row == changed ? 77 : row % 50));
    text += key == "text" ? "{\"text\": \"" + number + "\"}\n" : "{\"input_ids\": [1, 2, 3, " + number + "]}\n";
  }
  return text;
}

}  // namespace

TEST_CASE("the fingerprint is that of the content, whatever its path") {
  const TempFolder folder;
  CHECK(fingerprint(folder.write("a.jsonl", rows("text"))) == fingerprint(folder.write("deep/b.jsonl", rows("text"))));
  CHECK(fingerprint(folder.write("a.txt", "some text")) == fingerprint(folder.write("b.txt", "some text")));
  DatasetOptions inside;
  inside.sequence_length = 8;
  CHECK(data_fingerprint(*open_dataset(inside)) == data_fingerprint(*open_dataset(inside)));
}

TEST_CASE("any changed row changes the fingerprint") {
  const TempFolder folder;
  for (const std::string key : {"text", "input_ids"}) {
    std::set<std::uint64_t> seen{fingerprint(folder.write("rows.jsonl", rows(key)))};
    const std::vector<int> changed{0, 1, 499, 731, 998, 999};
    for (const int row : changed) seen.insert(fingerprint(folder.write("rows.jsonl", rows(key, row))));
    CHECK(seen.size() == changed.size() + 1);
  }
  std::string text(300'000, 'a');
  std::set<std::uint64_t> seen{fingerprint(folder.write("a.txt", text))};
  for (const std::size_t byte : {0U, 1U, 123'456U, 299'999U}) {
    text[byte] = 'b';
    seen.insert(fingerprint(folder.write("a.txt", text)));
  }
  CHECK(seen.size() == 5);
}

TEST_CASE("order, sizes and weights of files are part of the fingerprint") {
  const TempFolder folder;
  const fs::path a = folder.write("a.txt", "the first"), b = folder.write("b.txt", "the other");
  const auto of = [](const fs::path& one, std::optional<double> weight, const fs::path& two) {
    return fingerprint({{one, weight}, {two, std::nullopt}});
  };
  CHECK(std::set<std::uint64_t>{of(a, {}, b), of(b, {}, a), of(a, 1, b), of(a, 2, b), fingerprint(folder.path())}.size() == 5);
}

TEST_CASE("the fingerprint of very large text files covers their sizes, both ends and blocks at intervals") {
  const TempFolder folder;
  const fs::path file = folder.write("large.txt", "");
  constexpr std::uint64_t bytes = 300'000'000;  // holes: nothing is on the disk
  fs::resize_file(file, bytes);
  const auto change = [&](std::uint64_t at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put('x');
  };
  std::set<std::uint64_t> seen{fingerprint(file)};
  change(0), seen.insert(fingerprint(file));
  change(bytes - 1), seen.insert(fingerprint(file));
  fs::resize_file(file, bytes + 1), seen.insert(fingerprint(file));
  CHECK(seen.size() == 4);
}
