#include "data/open_dataset.hpp"

#include <cstdlib>
#include <map>
#include <numeric>
#include <thread>

#include "catch.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using pipetrain::TempFolder;

namespace {

using Tokens = std::vector<std::int32_t>;

std::unique_ptr<Dataset> open(std::vector<std::filesystem::path> paths, std::optional<std::int64_t> sequence_length,
                              std::int64_t vocabulary = 256) {
  DatasetOptions options;
  for (auto& path : paths) options.inputs.push_back({path, std::nullopt});
  options.sequence_length = sequence_length;
  options.vocabulary = vocabulary;
  return open_dataset(options);
}

Tokens tokens_of_bytes(const std::string& text) {
  Tokens tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

}  // namespace

TEST_CASE("a text file is cut into samples that share one token with their neighbour") {
  TempFolder folder;
  const auto data = open({folder.write("a.txt", "abcdefghij\xff")}, 3);
  REQUIRE(data->size() == 3);
  REQUIRE(data->sequence_length() == 3);
  CHECK(data->read(0) == tokens_of_bytes("abcd"));
  CHECK(data->read(1) == tokens_of_bytes("defg"));
  CHECK(data->read(2) == tokens_of_bytes("ghij"));
  CHECK(data->read(4) == tokens_of_bytes("defg"));  // the next epoch
  const auto exact = open({folder.write("b.txt", "ab\xff")}, 2);
  REQUIRE(exact->size() == 1);
  CHECK(exact->read(0) == Tokens{97, 98, 255});
}

TEST_CASE("a large text file reads the same as a small one") {
  TempFolder folder;
  std::string text(1 << 20, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>((i * 2654435761u) >> 13);
  const auto data = open({folder.write("big.txt", text)}, 1000);
  REQUIRE(data->size() == (1 << 20) / 1000);
  for (const std::int64_t k : {0, 17, 1047})
    CHECK(data->read(k) == tokens_of_bytes(text.substr(static_cast<std::size_t>(k) * 1000, 1001)));
}

TEST_CASE("text rows are packed with a marker between them") {
  TempFolder folder;
  const auto file = folder.write(
      "a.jsonl", "{\"text\": \"ab\"}\n\n{\"text\": \"\"}\r\n  {\"id\": 7, \"text\": \"c\\u00e9\\n\"}\n{\"text\":\"xyz\"}");
  SECTION("the first id no byte has, where the vocabulary has it") {
    const auto data = open({file}, 4, 257);
    REQUIRE(data->size() == 2);
    CHECK(data->read(0) == Tokens{'a', 'b', 256, 'c', 0xc3});
    CHECK(data->read(1) == Tokens{0xc3, 0xa9, '\n', 256, 'x'});
  }
  SECTION("else a newline") {
    const auto data = open({file}, 10, 256);
    REQUIRE(data->size() == 1);
    CHECK(data->read(0) == tokens_of_bytes("ab\nc\xc3\xa9\n\nxyz"));
  }
}

TEST_CASE("id rows are one sample each and give the sequence length") {
  TempFolder folder;
  const auto file =
      folder.write("a.jsonl", "\xEF\xBB\xBF{\"input_ids\": [1, 2, 3]}\n{\"input_ids\":[4,5,999], \"source\": null}\n");
  const auto data = open({file}, std::nullopt, 1000);
  REQUIRE(data->size() == 2);
  REQUIRE(data->sequence_length() == 2);
  CHECK(data->read(0) == Tokens{1, 2, 3});
  CHECK(data->read(1) == Tokens{4, 5, 999});
  CHECK(data->read(3) == Tokens{4, 5, 999});
}

TEST_CASE("a folder is read in the order of its names, short documents packed together") {
  TempFolder folder;
  folder.write("in/b.txt", "BB");
  folder.write("in/a.txt", "A");
  folder.write("in/c.jsonl", "{\"text\":\"CC\"}\n{\"text\":\"D\"}\n");
  folder.write("in/d.jsonl", "{\"input_ids\":[0,1,2,3,4]}\n");
  folder.write("in/README.md", "not data");
  const auto data = open({folder.path() / "in"}, 4);
  REQUIRE(data->size() == 3);
  CHECK(data->read(0) == tokens_of_bytes("A\nBB\n"));
  CHECK(data->read(1) == tokens_of_bytes("\nCC\nD"));
  CHECK(data->read(2) == Tokens{0, 1, 2, 3, 4});
}

TEST_CASE("inputs without weights follow one another") {
  TempFolder folder;
  const auto data = open({folder.write("b.txt", "bbbbb"), folder.write("a.txt", "aaaaaaa")}, 2);
  REQUIRE(data->size() == 5);
  CHECK(data->read(1) == tokens_of_bytes("bbb"));
  CHECK(data->read(2) == tokens_of_bytes("aaa"));
  CHECK(data->read(4) == tokens_of_bytes("aaa"));
}

TEST_CASE("weights are the odds of a mixture, and every sample of an input comes before one comes again") {
  TempFolder folder;
  std::string rows[2];
  for (int i = 0; i < 3000; ++i) rows[i % 3 == 0] += "{\"input_ids\":[" + std::to_string(i) + ",0]}\n";
  const std::string big = folder.write("big.jsonl", rows[0]).string(), small = folder.write("small.jsonl", rows[1]).string();
  DatasetOptions options;
  options.inputs = {parse_data_input(big + GENERATE("", ":1")), parse_data_input(small + ":3.0")};  // 1 is the default
  options.vocabulary = 3000;
  options.shuffle = GENERATE(false, true);
  options.seed = 5;
  const auto data = open_dataset(options);
  REQUIRE(data->size() == 3000);

  std::map<int, int> times;
  int from_small = 0, in_order = 0, last = -1;
  for (std::int64_t i = 0; i < 3000; ++i) {
    const int id = data->read(i)[0];
    ++times[id];
    if (id % 3 != 0) continue;
    ++from_small;
    in_order += id == last + 3;
    last = id;
  }
  CHECK(from_small > 2150);  // 3/4 of 3000 draws: 2250, standard deviation 24
  CHECK(from_small < 2350);
  for (int id = 0; id < 3000; id += 3) CHECK((times[id] == from_small / 1000 || times[id] == from_small / 1000 + 1));
  for (int id = 1; id < 3000; id += 3) CHECK(times[id] <= 1);
  CHECK((in_order > 2000) == !options.shuffle);

  SECTION("the next epoch goes on through the large input") {
    std::map<int, int> seen = times;
    for (std::int64_t i = 3000; i < 5000; ++i) ++seen[data->read(i)[0]];
    for (int id = 1; id < 3000; id += 3) CHECK(seen[id] <= 1);
  }
  SECTION("it depends on the seed, and on nothing else") {
    const auto again = open_dataset(options);
    options.seed = 6;
    const auto other = open_dataset(options);
    int equal = 0;
    for (std::int64_t i = 0; i < 500; ++i) {
      CHECK(again->read(i) == data->read(i));
      equal += other->read(i) == data->read(i);
    }
    CHECK(equal < 250);
  }
}

TEST_CASE("only the ratio of weights counts, also of the largest and smallest numbers") {
  TempFolder folder;
  DatasetOptions options;
  options.sequence_length = 4;
  const auto first = folder.write("a.txt", std::string(4001, 'a')), second = folder.write("b.txt", std::string(4001, 'b'));
  const auto samples = [&](double a, double b) {
    options.inputs = {{first, a}, {second, b}};
    const auto dataset = open_dataset(options);
    std::vector<std::int32_t> firsts;
    for (std::int64_t i = 0; i < dataset->size(); ++i) firsts.push_back(dataset->read(i)[0]);
    return firsts;
  };
  const auto even = samples(1, 1);
  CHECK(std::abs(std::count(even.begin(), even.end(), 'a') - 1000) < 150);
  CHECK(samples(1e308, 1e308) == even);
  CHECK(samples(5e-324, 5e-324) == even);
  CHECK(samples(1.7e308, 0.85e308) == samples(2, 1));
}

TEST_CASE("the inside text is plain ASCII of about 100 KB and trains on a byte vocabulary") {
  const std::string_view text = inside_text();
  CHECK(text.size() > 95'000);
  CHECK(text.size() < 110'000);
  for (const char c : text) REQUIRE((c == '\n' || (c >= ' ' && c <= '~')));
  DatasetOptions options;
  options.default_sequence_length = 128;
  const auto data = open_dataset(options);
  CHECK(data->sequence_length() == 128);
  CHECK(data->size() == (std::ssize(text) - 1) / 128);
  CHECK(data->read(0) == tokens_of_bytes(std::string(text.substr(0, 129))));
}

TEST_CASE("many threads read one dataset") {
  TempFolder folder;
  std::string rows;
  for (int i = 0; i < 200; ++i) rows += "{\"text\":\"" + std::string(37, static_cast<char>('a' + i % 26)) + "\"}\n";
  const auto data = open({folder.write("a.jsonl", rows)}, 50, 300);
  std::vector<Tokens> expected;
  for (std::int64_t i = 0; i < data->size(); ++i) expected.push_back(data->read(i));
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (std::int64_t i = 0; i < 20 * data->size(); ++i)
        wrong[t] += data->read(i) != expected[static_cast<std::size_t>(i % data->size())];
    });
  for (auto& thread : threads) thread.join();
  CHECK(std::accumulate(wrong.begin(), wrong.end(), 0) == 0);
}
