// Patterns that match the empty text behave as in Hugging Face's library (tokenizers 0.23.3), which gave the values here.
#include "catch.hpp"
#include "core/error.hpp"
#include "data/byte_level_file.hpp"
#include "data/tokenizers/hugging_face_tokenizer.hpp"
#include "data/tokenizers/transforms/decoders.hpp"
#include "data/tokenizers/transforms/pre_tokenizers.hpp"
#include "files/json.hpp"

using namespace pipetrain;

namespace {

std::string replace_with(const std::string& pattern, const std::string& content, const char* kind = "Regex") {
  return Json::object({{"type", "Replace"}, {"pattern", Json::object({{kind, pattern}})}, {"content", content}}).dump();
}

// Returns the bytes of the ids, and <257> for those above; "FAILS" for an error.
std::string encoded(const std::string& normalizer, const std::string& text) {
  const auto tokenizer = tokenizer_from_json(test::byte_level_file("\"normalizer\": " + normalizer + ", "), "t.json", {});
  std::string bytes;
  try {
    for (const std::int32_t id : tokenizer->encode(text))
      bytes += id < 256 ? std::string(1, static_cast<char>(id)) : "<" + std::to_string(id) + ">";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK_THAT(error.what(), Catch::Matchers::StartsWith("t.json: normalizer Replace: an empty match puts text in front"));
    return "FAILS";
  }
  return bytes;
}

std::string sequence_of(const std::string& first, const std::string& second) {
  return R"({"type": "Sequence", "normalizers": [)" + first + ", " + second + "]}";
}

}  // namespace

TEST_CASE("the normalizer Replace puts its text at empty matches too") {
  struct Expected {
    const char *pattern, *text, *bytes;
  };
  const Expected all[] = {{"^", "ab b", "__ab b"},
                          {"$", "ab b", "ab b_"},
                          {"(?=b)", "ab b", "a_b _b"},
                          {"b*", "ab b", "__a_ _"},
                          {"^|b", "ab b", "__a_ _"},
                          {"(?<=a)", "ab b", "a_b b"},
                          {"", "ab b", "__a_b_ _b_"},
                          {"a??", "ab b", "__a_b_ _b_"},
                          {"a|$", "ab b", "_b b_"},
                          {"$", "a\nb\n", "a_\nb_\n_"},
                          {"^", "a\nb\n", "__a\n_b\n"},
                          {"\\A", "a\nb\n", "__a\nb\n"},
                          {"b*", "a\nb\n", "__a_\n_\n_"},
                          {"a|$", "a\nb\n", "_\nb_\n_"},
                          {"(?=a)",
                           "\xC3\xA9"
                           "a",
                           "\xC3\xA9_a"},
                          {"b*",
                           "\xC3\xA9"
                           "a",
                           "__\xC3\xA9_a_"},
                          {"b*", "b", "_"},
                          {"(?=a)", "aab", "__a_ab"},
                          {"a|$", "aab", "__b_"},
                          {"^", "ab b<|im_end|>b", "__ab b<257>__b"},
                          {"$", "<|im_end|>ab", "<257>ab_"},
                          {"(?=b)", "ab b<|im_end|>b", "a_b _b<257>__b"},
                          {"^", "", ""}};
  for (const auto& [pattern, text, bytes] : all) {
    INFO(pattern << " in " << text);
    CHECK(encoded(replace_with(pattern, "_"), text) == bytes);
  }
  CHECK(encoded(replace_with("", "_", "String"), "ab b") == "__a_b_ _b_");
  CHECK(encoded(replace_with("", "", "String"), "ab b") == "ab b");
}

TEST_CASE("text that an empty match puts in front of a word is doubled as a word, and refused as a part of one") {
  CHECK(encoded(replace_with("^", "XY"), "!b") == "XYXY!b");
  CHECK(encoded(replace_with("^", "__"), "ab") == "____ab");
  CHECK(encoded(replace_with("^", "\xC3\xA9"), "1b") ==
        "\xC3\xA9\xE9"
        "1b");
  CHECK(encoded(replace_with("^", "XY"), "ab b") == "FAILS");
  CHECK(encoded(replace_with("^", "\xC3\xA9"), "ab") == "FAILS");
  CHECK(encoded(replace_with("^", " "), "?ab") == "FAILS");
  const std::string front = replace_with("^", "_");
  CHECK(encoded(sequence_of(front, R"({"type": "NFC"})"), "ab") == "FAILS");
  CHECK(encoded(sequence_of(front, R"({"type": "Lowercase"})"), "ab") == "FAILS");
  CHECK(encoded(sequence_of(R"({"type": "Lowercase"})", front), "Ab") == "__ab");
  const std::string strip = R"({"type": "Strip", "strip_left": true, "strip_right": true})";
  CHECK(encoded(sequence_of(front, strip), "ab") == "__ab");
  CHECK(encoded(sequence_of(front, strip), "ab ") == "FAILS");
  CHECK(encoded(sequence_of(front, R"({"type": "Prepend", "prepend": "?"})"), "ab") == "?_?_ab");
  CHECK(encoded(sequence_of(front, replace_with("^", "?")), "ab") == "?_?_ab");
  CHECK(encoded(sequence_of(front, replace_with("_", "x")), "1b") == "xx1b");
  CHECK(encoded(sequence_of(front, replace_with("_", "")), "1b") == "1b");
  CHECK(encoded(sequence_of(front, replace_with("_", "x", "String")), "1b") == "xx1b");
  CHECK(encoded(sequence_of(front, replace_with("(?<=_)", "?")), "1b") == "_?_?1b");
  CHECK(encoded(sequence_of(front, replace_with("_a", "x")), "a1b") == "x1b");
  CHECK(encoded(sequence_of(replace_with("^a", ""), front), "ab") == "__b");
  CHECK(encoded(sequence_of(replace_with("$", "_"), R"({"type": "NFC"})"), "ab") == "ab_");
}

TEST_CASE("the decoder Replace puts its text at empty matches too") {
  const auto decoded = [](const char* pattern, std::vector<std::string> pieces) {
    const Json json = parse_json(replace_with(pattern, "_"), {"t.json"});
    for (const auto& step : make_decoders(Component("t.json", "decoder", json))) step->apply(pieces);
    return pieces;
  };
  using Pieces = std::vector<std::string>;
  CHECK(decoded("^", {"ab", "", "b"}) == Pieces{"_ab", "", "_b"});
  CHECK(decoded("$", {"ab", "b"}) == Pieces{"ab_", "b_"});
  CHECK(decoded("b*", {"ab", "b"}) == Pieces{"_a_", "_"});
}

TEST_CASE("the pre-tokenizer Split splits at empty matches, which are matches to its behavior") {
  using Words = std::vector<std::string>;
  struct Expected {
    const char *text, *pattern, *behavior;
    bool invert;
    Words words;
  };
  const Expected all[] = {{"ab cd", "(?=c)", "Isolated", false, {"ab ", "cd"}},
                          {"ab cd", "(?=c)", "Removed", true, {}},
                          {"ab cd", "(?=c)", "MergedWithPrevious", true, {"ab ", "cd"}},
                          {"ab cd", "(?=c)", "Contiguous", false, {"ab ", "cd"}},
                          {"ab cd", "b*", "Removed", false, {"a", " ", "c", "d"}},
                          {"ab cd", "b*", "MergedWithPrevious", false, {"ab", " ", "c", "d"}},
                          {"ab cd", "b*", "MergedWithPrevious", true, {"a", "b ", "c", "d"}},
                          {"ab cd", "b*", "MergedWithNext", false, {"a", "b ", "c", "d"}},
                          {"ab cd", "b*", "Contiguous", false, {"a", "b", " ", "c", "d"}},
                          {"ab cd", "(?=b)|c", "MergedWithPrevious", false, {"a", "b c", "d"}},
                          {"ab cd", "(?=b)|c", "MergedWithNext", true, {"a", "b c", "d"}},
                          {"ab cd", "(?=b)|c", "Removed", true, {"c"}},
                          {"aabcb", "b*", "MergedWithPrevious", false, {"a", "ab", "cb"}},
                          {"aabcb", "(?=b)|c", "MergedWithPrevious", false, {"aa", "bc", "b"}},
                          {"aabcb", "(?=b)|c", "MergedWithNext", false, {"aa", "b", "cb"}},
                          {"aabcb", "(?=b)|c", "Contiguous", true, {"aa", "b", "c", "b"}},
                          {"aabcb", "x*", "Contiguous", true, {"a", "a", "b", "c", "b"}}};
  for (const auto& [text, pattern, behavior, invert, words] : all) {
    INFO(pattern << " " << behavior << (invert ? " inverted" : "") << " in " << text);
    const Json json = Json::object(
        {{"type", "Split"}, {"pattern", Json::object({{"Regex", pattern}})}, {"behavior", behavior}, {"invert", invert}});
    Pieces pieces;
    pieces.reset(text, true);
    for (const auto& step : make_pre_tokenizers(Component("t.json", "pre_tokenizer", json)).steps) step->apply(pieces);
    CHECK(Words(pieces.list().begin(), pieces.list().end()) == words);
  }
}
