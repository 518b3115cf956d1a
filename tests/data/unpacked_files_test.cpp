// Compressed files, and several files by wildcards.
#include "catch.hpp"
#include "core/error.hpp"
#include "data/open_dataset.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;

namespace {

using namespace std::string_literals;

// {"text": "abc"} and {"text": "defgh"}, a row each.
const std::string gzip =
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xab\x56\x2a\x49\xad\x28\x51\xb2\x52\x50\x4a\x4c\x4a\x56\xaa\xe5\xaa\x86\xf3\x53\x52\xd3\xd2\x33\x80\x22\x00\x02\x09\x5c\x25\x22\x00\x00\x00"s;
const std::string zstd =
    "\x28\xb5\x2f\xfd\x20\x22\xf5\x00\x00\xc0\x7b\x22\x74\x65\x78\x74\x22\x3a\x20\x22\x61\x62\x63\x22\x7d\x0a\x64\x65\x66\x67\x68\x22\x7d\x0a\x01\x00\x66\x9b\x4b"s;

DatasetOptions unpacked_options(const std::filesystem::path& path) {
  DatasetOptions options;
  options.inputs = {{path, std::nullopt}};
  options.sequence_length = 8;
  options.vocabulary = 257;
  return options;
}

std::vector<std::int32_t> tokens_of(const std::filesystem::path& path) { return open_dataset(unpacked_options(path))->read(0); }

std::string unpacking_error(const std::filesystem::path& path) {
  try {
    open_dataset(unpacked_options(path));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("compressed rows are those that were compressed") {
  const TempFolder folder;
  const auto plain = tokens_of(folder.write("a.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"defgh\"}\n"));
  CHECK(tokens_of(folder.write("a.jsonl.gz", gzip)) == plain);
  CHECK(tokens_of(folder.write("a.jsonl.zst", zstd)) == plain);
  CHECK(tokens_of(folder.write("a.txt.zst", zstd)).front() == '{');
  // Several compressed parts in one file, as `cat` writes them.
  const auto twice = open_dataset(unpacked_options(folder.write("b.jsonl.gz", gzip + gzip)));
  CHECK(twice->size() == 2);
  CHECK(open_dataset(unpacked_options(folder.write("b.jsonl.zst", zstd + zstd)))->read(1) == twice->read(1));
}

TEST_CASE("compressed files that are damaged are refused") {
  const TempFolder folder;
  const auto gz = [&](const std::string& bytes) { return unpacking_error(folder.write("a.jsonl.gz", bytes)); };
  const auto zst = [&](const std::string& bytes) { return unpacking_error(folder.write("a.jsonl.zst", bytes)); };
  std::string wrong_sum = gzip;
  wrong_sum[gzip.size() - 8] ^= 1;
  CHECK_THAT(gz(""), Contains("a.jsonl.gz: is empty"));
  CHECK_THAT(gz("{\"text\": \"abc\"}"), Contains("a.jsonl.gz: cannot be unpacked"));
  CHECK_THAT(gz(gzip.substr(0, 5)), Contains("cannot be unpacked"));
  CHECK_THAT(gz(gzip.substr(0, gzip.size() - 9)), Contains("cannot be unpacked"));
  CHECK_THAT(gz(gzip.substr(0, gzip.size() - 1)), Contains("cannot be unpacked"));
  CHECK_THAT(gz(wrong_sum), Contains("cannot be unpacked (incorrect data check)"));
  CHECK_THAT(gz(gzip + "x"), Contains("cannot be unpacked"));
  CHECK_THAT(gz(zstd), Contains("cannot be unpacked"));
  std::string wrong_block = zstd;
  wrong_block[6] ^= 0x40;
  CHECK_THAT(zst(""), Contains("a.jsonl.zst: is empty"));
  CHECK_THAT(zst("{\"text\": \"abc\"}"), Contains("a.jsonl.zst: cannot be unpacked"));
  CHECK_THAT(zst(zstd.substr(0, 3)), Contains("cannot be unpacked"));
  CHECK_THAT(zst(zstd.substr(0, zstd.size() - 1)), Contains("cannot be unpacked"));
  CHECK_THAT(zst(wrong_block), Contains("cannot be unpacked"));
  CHECK_THAT(zst(zstd + "xyz"), Contains("cannot be unpacked"));
  CHECK_THAT(zst(gzip), Contains("cannot be unpacked"));
  CHECK_THAT(unpacking_error(folder.write("a.tokens.gz", gzip)), Contains("a file of this kind cannot be read"));
}

TEST_CASE("wildcards give files in the order of their names") {
  const TempFolder folder;
  folder.write("b.txt", "bbbbbb");
  folder.write("a.txt", "aaa");
  folder.write("c.jsonl", "{\"text\": \"c\"}");
  CHECK(tokens_of(folder.path() / "*.txt") == std::vector<std::int32_t>{'a', 'a', 'a', 256, 'b', 'b', 'b', 'b', 'b'});
  CHECK(parse_data_input((folder.path() / "*.txt:2").string()).weight == 2.0);
  CHECK_THAT(unpacking_error(folder.path() / "*.md"), Contains("there is no such file or folder"));
}
