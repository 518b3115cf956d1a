// The texts that arrive id by id join to the text of all ids, and each piece consists of whole characters.
#include "data/tokenizers/text_stream.hpp"

#include <simdjson.h>

#include "catch.hpp"
#include "paths.hpp"
#include "tokenizer_files.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;

namespace {

bool valid(const std::string& text) { return simdjson::validate_utf8(text.data(), text.size()); }

std::string streamed(const Tokenizer* tokenizer, const std::vector<std::int32_t>& ids, std::size_t prompt) {
  TextStream stream(tokenizer, {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(prompt)});
  std::string text;
  for (std::size_t i = prompt; i <= ids.size(); ++i) {
    const std::string piece = i < ids.size() ? stream.add(ids[i]) : stream.finish();
    CHECK(valid(piece));
    text += piece;
  }
  return text;
}

}  // namespace

TEST_CASE("text arrives in whole characters, and is the text that ids add after the prompt") {
  const fs::path fixtures = fs::path(test_data()) / "data/tokenizers/fixtures";
  for (const std::string& name : test::tokenizer_shapes()) {
    const auto tokenizer = open_tokenizer(fixtures / (name + ".json"));
    test::RecordFile lines(fixtures / "lines.bin");
    int compared = 0;
    while (!lines.at_end()) {
      const std::string line = lines.text();
      const auto ids = tokenizer->encode(line, SpecialTokens::leave_out);
      if (ids.size() < 4) continue;
      const std::string whole = tokenizer->decode(ids, SpecialTokens::leave_out);
      for (const std::size_t prompt : {std::size_t{1}, ids.size() / 2}) {
        const std::string before = tokenizer->decode(std::span(ids).first(prompt), SpecialTokens::leave_out);
        const std::string after = streamed(tokenizer.get(), ids, prompt);
        // If the prompt ends within a character there is no such text.
        if (whole.compare(0, before.size(), before) != 0) continue;
        INFO(name << ": " << line.substr(0, 200));
        CHECK(before + after == whole);
        ++compared;
      }
    }
    CHECK(compared > 300);
  }
}

TEST_CASE("bytes as tokens come in whole characters; what is none is U+FFFD") {
  std::vector<std::int32_t> ids;
  for (const char byte : std::string("a\xC3\xA9\xF0\x9F\x98\x80z")) ids.push_back(static_cast<unsigned char>(byte));
  CHECK(streamed(nullptr, ids, 0) == "a\xC3\xA9\xF0\x9F\x98\x80z");
  TextStream stream(nullptr, {});
  CHECK(stream.add(0xF0).empty());
  CHECK(stream.add(0x9F).empty());
  CHECK(stream.add('b') ==
        "\xEF\xBF\xBD"
        "b");
  CHECK(stream.add(300).empty());  // not a byte
  CHECK(stream.add(0xC3).empty());
  CHECK(stream.finish() == "\xEF\xBF\xBD");
}
